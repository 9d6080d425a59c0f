"""State in checkpoints: what operators hand to a checkpoint and get back from one, and the format of keyed state in it.

Open `snapshot.py` first. `keyed_parts.py` is the format that every backend writes and reads. May import
`actors.protocol` and `actors.columns`.
"""
