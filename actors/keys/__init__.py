"""The key of a row: its hash and key group, and the dense number that columnar state is indexed by.

Open `hashes.py` first: key columns, hashes and key groups. `key_types.py` refuses keys whose type turns into another;
`index.py` numbers keys of any type, with `integer_index.py` and `text_index.py` for those that are integers and texts;
`state_tables.py` brings state by key into snapshots and back. May import `actors.columns`, `actors.state` and
`actors.user_code`.
"""
