"""Which subtask starts from which part of a checkpoint, whatever has changed in the program. Pure decisions.

Open `assignment.py` first. `matching.py` finds the state of each operator, and `in_flight_assignment.py` says which
subtask processes the rows that an unaligned barrier overtook; `actors.tasks.checkpoints.restoring` then processes them.
May import `actors.checkpoints.coordination` and `actors.protocol`.
"""
