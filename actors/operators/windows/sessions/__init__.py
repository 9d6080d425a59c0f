"""Session windows: rows find the session that they extend or merge, in columns.

Open `operator_base.py` first, then `store.py`, where rows are added and sessions merge. Which intervals touch is the
arithmetic of `intervals.py`; `lookup.py` finds the open sessions of a key, `end_queue.py` those that are due, and
`contents.py` is what is in them. Imports the rooms of aggregates and of windows' base and user functions.
"""
