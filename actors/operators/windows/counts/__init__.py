"""Count windows: windows of a number of rows per key.

Open `operator.py` first; `arithmetic.py` says which row is in which window and pane, and `store.py` has the state.
Imports the rooms of aggregates and of windows' base.
"""
