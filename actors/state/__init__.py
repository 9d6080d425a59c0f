"""State of operators: by key (`keyed`, `hashmap`, `rocksdb`), without a key, and in checkpoints (`snapshots`).

Open `backends.py` first, which chooses the backend of keyed state; `operator_state.py` is state that belongs to no key.
May import `actors.protocol`, `actors.storage` and `actors.columns`; `backends.py` also the contract of operators.
"""
