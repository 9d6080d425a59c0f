"""What a failure leads to: which subtasks restart, when, and what is remembered of it.

Open `failure_handler.py` first. `failover_strategies.py` says which subtasks a failure takes along,
`restart_strategies.py` whether and when they start again, and `restarts.py` is the restart that is under way. Pure
decisions. Imports `actors.protocol`, `graphs` and `flinkray`.
"""
