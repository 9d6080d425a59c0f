"""What the functions of Flink SQL compute, on whole columns: kernels, found by the functions' names.

- `operator.py`: the operator, which filters and projects the rows of a batch. Open it first.
- `calculation.py`: expressions of plans computed on columns.
- `numbers.py`, `logic.py`, `texts.py`, `patterns.py`, `times.py`, `shifts.py`, `collections.py`, `json_functions.py`:
  kernels by subject; `json_paths.py`: paths into JSON.
- `values/`: what they stand on: calls and kernels, decimals, the calendar, casts.

Named after Flink's Calc, which projects and filters. What the functions take is in `flinkray.tables.functions`.
"""
