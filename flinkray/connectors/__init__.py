"""Sources and sinks: their contracts, what several of them share, and a folder for each system.

Open `source.py` and `sink.py` first, the contracts that users implement as well; `lookup.py` is that of tables that are
asked for rows by key. `split_list.py` is the base of sources whose splits are a list, `threaded_splits.py` that of
readers that read each on a thread; `handover.py` and `coalescing.py` are for all that read on a thread of their own.
Each system's folder has a `source.py` or a `sink.py`, or both. A connector imports `flinkray.batches`, `types`,
`functions`, and folders that stand before it in the order of rooms (tests/unit/test_architecture.py).
"""
