"""Tumbling and sliding windows: rows go once into the slice that windows share (Cutty's and Scotty's slicing).

Open `aggregate_operator.py` first, which aggregates in columns; `slice_store.py` has its state, and `slice_index.py` is
how the accumulator of a key in a slice is found: computed (`dense_index.py`) or numbered by arrival
(`sparse_index.py`). `local_operator.py` is the phase before the exchange. `function_operator.py` and
`process_operator.py` call the user's functions. Imports the rooms of aggregates and of windows' base, buffers and user
functions.
"""
