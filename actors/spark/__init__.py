"""The bridge to Spark: DataFrames and streaming queries in, DataFrames out, sessions on Ray (RayDP).

Open `bridge.py` first; `stream.py` for Structured Streaming. The only package that imports pyspark and raydp. May
import `actors.blocks`, `actors.hosts.ray` and `actors.hosts.java`.
"""
