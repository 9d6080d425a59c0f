"""Column expressions evaluated: one kernel per function, on whole Arrow arrays; and select, where and their kin.

Open `column_operators.py` first; `kernels.py` has the functions. The tree of an expression is `flinkray.expressions`.
"""
