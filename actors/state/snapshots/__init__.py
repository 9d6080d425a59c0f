"""State in checkpoints: what operators hand to one and get back from it, and the one format of keyed state in it.

Open `snapshot.py` first. `keyed_parts.py` is the format that every backend writes and reads.
"""
