"""NATS JetStream: streams as sources and sinks.

Open `source.py` and `sink.py` first. `commits.py` writes rows once, `consumers.py` asks the server for the messages of
a subject, `reader.py` makes rows of them on a thread of its own, `clients.py` makes clients of nats-py, which comes
with `flinkray[nats]`, and says what their errors mean. Imports `flinkray.connectors`.
"""
