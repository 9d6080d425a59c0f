"""What handlers work with: the masters that they ask, the request that they answer, and why they may refuse to.

Open `masters.py` first.
"""
