"""Windows of a number of rows per key.

Open `operator.py` first; `arithmetic.py` says which row is in which window.
"""
