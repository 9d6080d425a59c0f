"""Functions that users write, the contexts they are called with, and what is checked when they are handed over.

Open `interfaces.py` first (`MapFunction`, `KeyedProcessFunction`, …). `type_hints.py` finds the record type that a
function gives. What calls them is in `actors.operators.functions` and `actors.user_code`. Imports
`flinkray.state` and rooms below it.
"""
