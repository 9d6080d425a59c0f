"""What a failure leads to: which subtasks restart, when, and what is remembered of it.

Open `failure_handler.py` first. `failover_strategies.py` says which subtasks a failure takes along,
`restart_strategies.py` whether and when they start again. Pure decisions.
"""
