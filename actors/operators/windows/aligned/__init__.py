"""Tumbling and sliding windows over event or processing time: slices that windows share (panes in other papers).

Open `aggregate_operator.py` first, then `slice_store.py`: accumulators per key and slice. Which place a key has in a
slice is computed (`dense_index.py`) or looked up (`sparse_index.py`). `local_operator.py` is the phase before an
exchange; `function_operator.py` and `process_operator.py` run the user's functions.
"""
