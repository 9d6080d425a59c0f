"""Tables: Flink's SQL, from the text of a statement to a logical plan; descriptions only, as everything in `flinkray`.

- `types/`: logical types, their Arrow types, common types and casts. Open `types/logical.py` first.
- `functions/`: which functions there are, what they take and of which type their result is. Open
  `functions/registry.py` first. What they compute is in `actors.operators.calc`.
- `syntax/`: statements as they are written. Open `syntax/parsing/parser.py` first.
- `plans/`: logical plans, and the rules that rewrite them. Open `plans/nodes.py` first.
- `catalog.py`: tables, views and functions by name.
- `environment/`: statements that do something, and their results. `connectors/`: sources and sinks by their options.
  `api/`: queries in Python. `user_functions.py`: functions of the user's. `lowering/`: plans as transformations.
  `compiled/`: plans that are kept.
- `binding/`: from statements to logical plans: names, types and functions. Open `binding/binder.py` first.
"""
