"""Kafka: topics as sources.

Open `source.py` first. `offsets.py` says where partitions are begun and ended, `enumerator.py` finds partitions and
assigns them, `reader.py` reads them on a thread of its own, `clients.py` makes clients of confluent-kafka, which comes
with `flinkray[kafka]`. Imports `flinkray.connectors` and its formats.
"""
