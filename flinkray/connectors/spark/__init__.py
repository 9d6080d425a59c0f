"""Spark as source and sink: descriptions only. What speaks to Spark is in `actors.spark`, found as a plug-in.

Open `source.py` first: batch DataFrames and Structured Streaming. Imports the connectors' contracts.
"""
