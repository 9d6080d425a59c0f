"""What a driver does: executors, the client of a job, sessions, and the command line.

Open `executors.py` first, or `cli.py` for the command line.
"""
