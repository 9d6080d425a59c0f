"""Around the user's functions: life cycle, runtime context, metrics, and errors that show the user's own lines.

Open `functions.py` first.
"""
