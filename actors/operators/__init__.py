"""The operators: what a task does with its batches. None of them knows of a cluster.

Open `registry.py` first: the one table from the descriptions in `flinkray.transformations.operator_factories` to the
operators. What an operator is stands in `contract`; the other packages have one kind of operator each.
"""
