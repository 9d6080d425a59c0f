"""Operators of tables: rows of known columns, whose kinds say what they do in a changelog.

- `operator.py`: what they share. Open it first.
- `changes.py`: what rows do, and the changes from old rows to new ones.
- `rows/`: rows that they keep by key.
- `over/`: calls OVER windows of rows.
- `aggregates/`: aggregates of groups.
- `ranks/`: the first rows of each key; `ranks/deduplicate.py` is the smallest operator, to see how one is made.
- `joins/`: joins.
"""
