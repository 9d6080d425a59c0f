"""The edge of an iteration that leads back (Flink's iteration tail and head).

The tail is a sink, the head a source, and a queue in the process connects them. Open `source.py` first: it decides when
the loop ends. Imports the connectors' contracts and `flinkray.batches`.
"""
