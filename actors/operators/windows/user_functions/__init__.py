"""Users' functions in windows: contexts, what a window keeps for them, and when they are called.

Open `calls.py` first.
"""
