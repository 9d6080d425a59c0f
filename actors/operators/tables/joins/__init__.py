"""Joins of tables, and what is like them.

- `regular.py`: all pairs of two changelogs. Open it first.
- `interval.py`: pairs that lie near each other in time; `timed_rows.py`: rows by key and time.
- `temporal.py`: rows with what another table was at their time.
- `lookup.py`: rows with what a table, which is asked for it, has at the moment.
- `set_operation.py`: INTERSECT and EXCEPT.
- `unnest.py`: rows with the elements of their collections.
- `side.py`: the rows of one input, and what a batch changes of them.
- `row_finder.py`: rows found by what is in them.
- `candidates.py`: rows with the rows of the other input that have their key, in pieces.
- `conditions.py`: which of these pairs a condition lets pass.
- `results.py`: the columns and kinds of what comes out.
"""
