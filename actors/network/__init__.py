"""The data exchange between tasks: partitions, gates, and credit-based connections between slots.

A row enters at `producer/record_writer.py`, waits in a queue of `producer/pipelined_partition.py`, crosses to another
slot by `connections` if it must, and is read at `consumer/input_gate.py`. `flow` has what bounds it: buffers and
credits.
"""
