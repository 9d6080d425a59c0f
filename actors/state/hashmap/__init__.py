"""The hashmap backend: keyed state in Python dicts (Flink's HeapKeyedStateBackend).

Open `backend.py` first. `states.py` has each kind of state over dicts, with time to live and copy-on-write snapshots.
May import `actors.state.keyed` and `actors.state.snapshots`.
"""
