"""Spark as source and sink. Descriptions only: what speaks to Spark is in `actors.spark`, found as a plug-in.

Open `descriptions.py` first; `stream.py` is for Structured Streaming.
"""
