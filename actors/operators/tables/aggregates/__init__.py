"""Aggregates of groups of rows (Flink's GroupAggregate and its built-in aggregate functions).

- `group_aggregate.py`: the operator. Open it first. `expand.py`: rows by grouping set, before it.
- `local_aggregate.py`: its first phase, within each batch.
- `aggregates.py`: all aggregates of one operator.
- `calls.py`: which aggregate is which state, and its result.
- `grouped_rows.py`: the rows of a batch by group.
- `arguments.py`: which rows an aggregate takes, and their values.
- `group_state.py`: what is kept for each group: numbers in arrays.
- `linear.py`: counts and sums. What is taken back is subtracted.
- `extremes.py`: the least or largest value so far, and the first or last one, of groups that only grow.
- `value_sets.py`: how often each group has each value, for DISTINCT, and extremes that may be taken back.
- `value_lists.py`: the values of each group in the order in which they came.

Groups are numbered 0, 1, ...
"""
