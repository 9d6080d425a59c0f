"""What a checkpoint is on disk: its directory, `_metadata`, and the files of state.

Open `storage.py` first. `metadata.py` is the format of `_metadata`, `state_writers.py` writes a subtask's state and
`reading.py` reads it again. These functions block; threads that may call them.
"""
