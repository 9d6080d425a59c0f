"""The operators of a task, wired to each other and to the network (Flink's OperatorChain).

Open `operator_chain.py` first. `task_services.py` is what operators get from their task, `outputs.py` where their
results go.
"""
