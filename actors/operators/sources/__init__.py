"""The source operator: runs a reader, coalesces its batches, and makes watermarks per split.

Open `operator.py` first. A source's enumerator runs in `actors.coordinators`.
"""
