"""Keyed state of one operator: what a backend is, and what all backends do alike.

Open `backend.py` first. `kinds.py` has value, list, map, reducing and aggregating state as user functions call them.
May import `actors.state.snapshots` and `actors.protocol`.
"""
