"""What a program records: a transformation per API call, with the description of its operator and partitioning.

Open `transformation.py` first. `operator_factories.py` has a picklable description per kind of operator; the operators
themselves are made of them by `actors/operators/registry.py`. The compiler in `graphs` begins with these records.
Imports `flinkray.types` and, for types only, what the descriptions hold.
"""
