"""The Table API: queries that are put together in Python. Each step is the SQL that means the same, and bound like it.

- `table.py`: Table, whose methods give further tables. Open it first. `grouped_tables.py`: what `group_by`, `window`
  and `over_window` give.
- `expression.py`: expressions and their methods, by the tables of `methods.py`; `expressions.py`: functions that give
  expressions; `user_functions.py`: `udf` and its like; `row_functions.py`: how tables call these.
- `windows.py`: Tumble, Slide, Session and Over. `schemas.py`: Schema and TableDescriptor. `data_types.py`: types.
- `queries.py`: statements that are made of expressions, and their plans.
"""
