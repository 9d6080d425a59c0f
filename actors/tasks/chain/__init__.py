"""The operators of a task, wired to each other and to the network (Flink's OperatorChain).

Open `operator_chain.py` first. `outputs.py` is where operators' results go, `operator_context.py` what operators may
use of their task, `task_settings.py` the options that the task has read, `task_services.py` what it gets from its slot.
May import `actors.tasks.metrics`, `actors.operators` and `actors.network`.
"""
