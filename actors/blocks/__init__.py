"""Blocks of rows that cross between a job and its driver: the store they are in, as a source, and as a sink.

Open `store.py` first. `driver.py` is the base of connectors that stay in the driver.
"""
