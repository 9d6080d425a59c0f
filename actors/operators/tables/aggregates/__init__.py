"""Aggregates of groups of rows (Flink's GroupAggregate and its built-in aggregate functions).

- `group_aggregate.py`: the operator. Open it first. `expand.py`: rows by grouping set, before it.
- `local_aggregate.py`: its first phase, within each batch.
- `aggregates.py`: all aggregates of one operator.
- `calls.py`: which aggregate is which state, and its result.
- `states/`: what is kept of each group.

Groups are numbered 0, 1, ...
"""
