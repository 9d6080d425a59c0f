"""Rows that the driver has, shipped with the program: collections, Arrow tables, DataFrames. Open `source.py`."""
