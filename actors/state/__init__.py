"""State: what a backend is (`keyed`), those there are (`hashmap`, `rocksdb`), and state in checkpoints (`snapshots`).

`backends.py` chooses the backend of an operator; `operator_state.py` is state that belongs to no key.
"""
