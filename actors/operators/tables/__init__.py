"""Operators of tables: rows of known columns, whose kinds say what they do in a changelog.

- `operator.py`: what they share. Open it first.
- `group_aggregate.py`: aggregates of groups; what they keep is in `aggregates/`. `expand.py`: rows by grouping set.
- `changes.py`: what rows do, and the changes from old rows to new ones.
- `rows/`: rows that they keep by key.
- `over/`: calls OVER windows of rows.
- `ranks/`: the first rows of each key; `ranks/deduplicate.py` is the smallest operator, to see how one is made.
- `joins/`: joins.
"""
