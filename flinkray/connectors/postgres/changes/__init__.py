"""Changes of a table of PostgreSQL as a source: a snapshot in parallel, then the log (change data capture).

Open `source.py` first. `splits.py` says what is read by whom, and which changes the snapshot has already,
`enumerator.py` brings the readers from the snapshot to the log, and `reader.py` reads both. `slots.py` prepares the
server, `stream.py` has the connection that the log comes through, `log.py` follows its transactions, `messages.py`
takes its messages apart, and `values.py` makes columns of their texts.

The snapshot is read in pieces, each at a moment of its own, and the log from before the first of them. Of a transaction
the server says which of these moments see it, so that each change is given by one of both; in this it differs from
Flink CDC, which reads a piece of the log for each piece of the snapshot (the DBLog algorithm).
"""
