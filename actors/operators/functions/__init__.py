"""Users' functions as operators: map and its kin fused, map_batches, process functions, reduce.

Open `row_functions.py` (map, filter, flat_map), `process.py` (with state and timers) or `batch_functions.py`.
`result_collector.py` gathers what they give, `flush_policy.py` says when that goes on.
"""
