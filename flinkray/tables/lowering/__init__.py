"""From logical plans to transformations, which the compiler takes like those of streams (Flink's physical planning).

- `queries.py`: a query over streams by name. Open it first.
- `lowering.py`: a plan as transformations.
- `refusals.py`: what cannot be executed yet, and where that stands in the statement.
"""
