"""Built-in aggregates as columns of accumulators, updated with one kernel call per batch.

Open `base.py` first, what a column of accumulators is; `aggregate_columns.py` has all aggregates of one operator.
Running aggregates, a result per row, begin in `running_operator.py`; the local phase's rows are `partial.py`.
"""
