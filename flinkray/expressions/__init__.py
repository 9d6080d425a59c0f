"""Column expressions (`col("price") * 0.9`): the tree that they build.

Open `tree.py`; `combinations.py` makes one of several (`when`, `coalesce`, `struct`). The kernels that evaluate it on
Arrow columns are in `actors.operators.expressions`. Imports `flinkray.time` for durations.
"""
