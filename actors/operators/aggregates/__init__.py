"""Built-in aggregates as columns of accumulators, updated with one kernel call per batch.

Open `accumulator_column.py` first, what such a column is; `fixed_width_columns.py` and `entry_columns.py` are the kinds
of them, and `aggregate_columns.py` has all aggregates of one operator. How sums overflow, where NaN sorts and what is
an extreme is in `value_rules.py`, also for running aggregates, a result per row, which begin in `running_operator.py`.
The rows that the local phase sends in place of plain ones are `partial.py`. Imports the rooms of columns, keys, state
and expressions.
"""
