"""Users' functions in windows: their contexts, what a window contains for them, and when they are called.

Open `calls.py` first. Imports the rooms of state, functions and windows' base.
"""
