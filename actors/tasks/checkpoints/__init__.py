"""How a task takes part in checkpoints, and comes back from one.

Open `barriers.py` first, which decides when barriers make a checkpoint. `task_checkpoints.py` acts on it in the task's
thread, `subtask_checkpoints.py` writes snapshots beside it, `ending.py` waits for the final checkpoint; `in_flight.py`
has the rows that a barrier overtook, and `restoring.py` puts them back. May import `actors.tasks.chain`.
"""
