"""How a task takes part in checkpoints, and comes back from one.

Open `barriers.py` first, which decides when barriers make a checkpoint; `task_checkpoints.py` acts on it in the task's
thread, `subtask_checkpoints.py` beside it.
"""
