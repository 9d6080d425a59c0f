"""The producer's side of an exchange: partitioners, the record writer, and result partitions with their queues.

Open `record_writer.py` first, then `result_partition.py`, the contract of both kinds of results: those of
`pipelined_partition.py` are read while they are made, those of `blocking_partition.py` by a later stage. May import
`actors.network.flow` and `actors.keys`.
"""
