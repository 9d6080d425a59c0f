"""Redis and Valkey: streams as sources and sinks, hashes as sinks by key.

Open `source.py` and `sink.py` first. `entries.py` makes rows of entries and back, `commits.py` writes rows once,
`reader.py` reads streams on a thread of its own, `clients.py` makes clients of redis-py, which comes with
`flinkray[redis]`, and says what their errors mean. Imports `flinkray.connectors`.
"""
