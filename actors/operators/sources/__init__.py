"""The source operator: runs a reader, coalesces its batches, and makes watermarks per split.

Open `operator.py` first. `coalescing.py` makes larger batches of small ones, `split_watermarks.py` a watermark of those
of all splits. A source's enumerator runs in `actors.coordinators`. May import `actors.operators.time`.
"""
