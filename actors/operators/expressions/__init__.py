"""Column expressions evaluated: one kernel per function, on whole Arrow arrays; and select, where and their kin.

Open `column_operators.py` first; `kernels.py` has the functions, `number_kernels.py` decimals and comparisons. The tree
of an expression is `flinkray.expressions`. May import `actors.columns` and the contract of operators.
"""
