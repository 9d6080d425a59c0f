"""Windows of any kind, row by row: any assigner, trigger and evictor, also those of the user.

Open `operator.py` first; `merging.py` is what happens when windows merge (Flink's MergingWindowSet).
"""
