"""Tables: Flink SQL's types and functions; descriptions only, as everything in `flinkray`.

- `types/`: logical types, their Arrow types, common types and casts. Open `types/logical.py` first.
- `functions/`: which functions there are, what they take and of which type their result is. Open
  `functions/registry.py` first. What they compute is in `actors.operators.calc`.
"""
