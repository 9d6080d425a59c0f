"""What a checkpoint is on disk: its directory, `_metadata`, and the files of state.

Open `directories.py` first. `metadata.py` is the format of `_metadata`, `state_writers.py` writes a subtask's state and
`reading.py` reads it again. All of it blocks, and is for threads that may. May import `actors.storage`,
`actors.checkpoints.coordination` and `actors.state.snapshots`.
"""
