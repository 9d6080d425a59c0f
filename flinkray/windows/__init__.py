"""Windows as programs describe them: assigners, triggers, evictors, and built-in aggregates.

Open `assigners.py` first. Windows as values are in `flinkray.time.windows`, and the operators that run them in
`actors.operators.windows` and `actors.operators.aggregates`. Imports `flinkray.functions` and rooms below it.
"""
