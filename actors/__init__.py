"""The runtime: endpoints, tasks, operators, network, and the hosts they run on.

The five endpoints are the modules here: `dispatcher.py`, `resource_manager.py`, `job_master.py`, `task_executor.py` and
`task_slot.py`. They carry messages; what they decide is in `scheduling`, `checkpoints`, `jobs` and `tasks`. A row's way
is `operators`, `tasks` and `network`. The order in which packages may import each other is in
`tests/unit/test_architecture.py`.
"""
