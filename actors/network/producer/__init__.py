"""The producer's side of an exchange: partitioners, the record writer, and result partitions with their queues.

Open `record_writer.py` first, then `result_partition.py`. `blocking_partition.py` keeps results for a later stage.
"""
