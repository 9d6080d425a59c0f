"""What all window operators share: late rows, when windows fire and are over, and their result batches.

Open `operator.py` first; `times.py` is the arithmetic.
"""
