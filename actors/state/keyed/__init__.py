"""Keyed state of one operator: the contract of a backend, and what all backends do alike.

Open `backend.py` first. `kinds.py` has value, list, map, reducing and aggregating state as user functions call them.
"""
