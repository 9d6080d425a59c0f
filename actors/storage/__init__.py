"""Files on any pyarrow file system as masters and checkpoints need them: written whole, numbered once, fenced.

Open `files.py` first. `fenced_log.py` is the value that one owner at a time may replace. Imports nothing of `actors`.
"""
