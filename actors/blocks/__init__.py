"""Blocks, in which rows cross between a job and its driver, Spark or Ray Data: their store, a source and a sink on it.

Open `store.py` first. Imports nothing else of `actors`.
"""
