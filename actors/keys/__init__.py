"""The key of a row: its hash and key group, and the dense number that columnar state is indexed by.

Open `hashes.py` first. `index.py` numbers keys of any type, and `integer_index.py` and `text_index.py` those of one;
`state_tables.py` brings state by key into snapshots and back.
"""
