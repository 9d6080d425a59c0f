"""Plans that are kept: what INSERTs compute as JSON, of which a later run makes the same operators with the same state.

Open `contents.py` first: what a plan holds. `values.py` has its nodes and expressions as JSON, `catalog_objects.py`
what becomes of tables and functions that have changed since, `references.py` where plans lie.
"""
