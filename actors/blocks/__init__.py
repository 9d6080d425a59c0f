"""Blocks of rows that cross between a job and its driver: the store they are in, as a source, and as a sink.

Open `store.py` first.
"""
