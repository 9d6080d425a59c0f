"""What a driver does: executors, the client of a job, sessions, and the command line.

Open `executors.py` first, or `cli.py` for the command line. Imports `actors.hosts`, the messages of `actors.protocol`,
and of the masters' rooms what a client can find out by itself: directories, slots, and the metadata of checkpoints.
"""
