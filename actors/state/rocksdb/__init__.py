"""The rocksdb backend: keyed state on the local disk, with incremental checkpoints (Flink's RocksDBKeyedStateBackend).

Open `backend.py` first. `states.py` has each kind of state over RocksDB, `store.py` is RocksDB as an ordered map, with
its options and memory, and `checkpoint_files.py` its files in checkpoints. May import `actors.state.keyed` and
`actors.state.snapshots`.
"""
