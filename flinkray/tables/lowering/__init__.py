"""From logical plans to transformations, which the compiler takes like those of streams (Flink's physical planning).

- `queries.py`: a query over streams by name. Open it first.
- `lowering.py`: a plan as transformations, node by node.
- `contract.py`: what the lowering of a node stands on.
- `calc.py`, `ranks.py`, `over.py`, `joins.py`, `aggregates.py`: what becomes of the nodes of each kind.
- `windows.py`, `window_aggregates.py` with `window_calls.py`: what becomes of windows, and of what is computed in them.
- `times.py`: rowtime attributes, of tables and of streams.
- `sinks.py`: rows on their way into a table.
- `refusals.py`: what cannot be executed yet, and where that stands in the statement.
"""
