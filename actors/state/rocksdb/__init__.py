"""The rocksdb backend: keyed state on the local disk, with incremental checkpoints.

Open `backend.py` first. `store.py` is RocksDB as an ordered map, `checkpoint_files.py` its files in checkpoints.
"""
