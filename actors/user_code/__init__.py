"""Around the user's functions: life cycle, runtime context, metrics, and errors that show the user's own lines.

Open `functions.py` first; `errors.py` has the errors, `metrics.py` the figures. May import the contract of operators
and `actors.state`.
"""
