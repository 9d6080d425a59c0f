"""Time and windows of tables: watermarks by expressions, windows as columns, and what is computed of a window's rows.

Most aggregates of windows are none of this: SQL runs them with the window operators of streams.

- `table_function.py`: TUMBLE, HOP and CUMULATE, which give rows the columns of their windows. Open it first.
- `watermarks.py`: watermarks from an expression.
- `window_rows.py`: rows that wait for the end of their window.
- `rank.py`, `join.py`, `aggregate.py`: the first rows of keys in a window; pairs of rows in it; aggregates of its rows.
"""
