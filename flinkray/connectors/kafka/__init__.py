"""Kafka: topics as sources and sinks.

Open `source.py` and `sink.py` first; `settings.py` is what a source tells its parts. `offsets.py` says where partitions
are begun and ended, `enumerator.py` finds partitions and assigns them, `reader.py` reads them on a thread of its own,
`rows.py` makes rows of messages. `writer.py` writes messages that `messages.py` makes of rows; for exactly once
the inner room `transactions` ends transactions, whoever began them. `clients.py` makes clients of confluent-kafka,
which comes with `flinkray[kafka]`, as does aiokafka.
Imports `flinkray.connectors` and its formats.
"""
