"""Operators of tables: rows of known columns, whose kinds say what they do in a changelog.

- `operator.py`: what they share. Open it first.
- `deduplicate.py`: the first or last row of each key; the smallest operator, to see how one is made.
- `changes.py`: what rows do, and the changes from old rows to new ones.
- `registry.py`: which operator runs which factory.
- `rows/`: rows that they keep by key.
"""
