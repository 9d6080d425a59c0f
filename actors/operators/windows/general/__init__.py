"""Windows of any kind, row by row: any assigner, trigger and evictor, also those of the user.

Open `operator.py` first (Flink's WindowOperator and EvictingWindowOperator); `merging.py` is what happens when windows
merge (Flink's MergingWindowSet), `aggregates.py` runs built-in aggregates in such windows. Imports the rooms of timers,
state and of windows' base, user functions and aligned windows.
"""
