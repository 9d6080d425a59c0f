"""Blocks, in which rows cross between a job and its driver, Spark or Ray Data: their store, a source and a sink on it.

Open `store.py` first; `driver.py` is the base of sources and sinks that stay in the driver. Imports nothing else of
`actors`.
"""
