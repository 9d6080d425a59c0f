"""From logical plans to transformations, which the compiler takes like those of streams (Flink's physical planning).

- `queries.py`: a query over streams by name. Open it first.
- `lowering.py`: a plan as transformations, node by node.
- `contract.py`: what the lowering of a node stands on.
- `calc.py`, `ranks.py`, `joins.py`: what becomes of the nodes of each kind.
- `refusals.py`: what cannot be executed yet, and where that stands in the statement.
"""
