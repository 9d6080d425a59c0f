"""Functions of Flink SQL: what each takes, and the type of its result. Open `registry.py` first.

- `registry.py`: all functions by name, and `resolve`, which types a call; `bound.py`: expressions of such calls.
- `signatures.py`: parameters, arguments, and how a call gets its types; `parameters.py`: parameters that many share.
- `operators.py`, `numbers.py`, `texts.py`, `times.py`, `collections.py`, `json.py`, `aggregates.py`: the functions.

Descriptions only: what a function computes on columns is in `actors.operators.calc`, under the same name.
"""
