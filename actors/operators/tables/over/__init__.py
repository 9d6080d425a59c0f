"""Calls OVER windows: for each row what the rows around it come to.

- `operator.py`: rows that wait, and what is kept of former ones. Open it first.
- `arrangement.py`: rows sorted by key and order, and the frame of each.
- `calls.py`: what each function computes of frames.
- `reductions.py`: sums, extremes and others over ranges of a column.
"""
