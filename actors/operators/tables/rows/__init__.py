"""Rows that operators of tables keep by key, in columns.

- `row_store.py`: the store. Open it first.
- `key_lists.py`: which rows a key has.
- `stored_columns.py`: the columns of all rows, in few chunks.
"""
