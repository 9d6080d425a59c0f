"""Users' functions as operators: map and its kin fused, map_batches, process functions, reduce.

Open `row_functions.py` (map, filter, flat_map), `process.py` (with state and timers) or `batch_functions.py`.
`message_formats.py` decodes and encodes messages. `result_collector.py` collects their results, `flush_policy.py` says
when these are emitted as a batch. May import `actors.keys`, `actors.state`, `actors.user_code` and
`actors.operators.time`.
"""
