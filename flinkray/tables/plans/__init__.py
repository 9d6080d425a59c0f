"""Logical plans: what a query computes, with names, types and functions known. Values that rules rewrite.

`nodes.py` has the relational operators, `expressions.py` what they compute: columns are numbers of columns of the
input, from 0, those of a join's right input behind those of its left one. `explain.py` writes a plan as text.
"""
