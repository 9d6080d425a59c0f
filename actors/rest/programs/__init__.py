"""Programs that are uploaded: how a form brings them, where they are kept, and how they are run in other processes.

Open `running.py` first.
"""
