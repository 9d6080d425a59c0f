"""Ray Data's Datasets as sources and sinks, and blocks of rows in Ray's object store.

Open `datasets.py` first. `block_store.py` keeps blocks in an actor that outlives whoever wrote them. May import
`actors.hosts.ray` and `actors.blocks`.
"""
