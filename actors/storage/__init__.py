"""Files on any pyarrow file system as masters and checkpoints need them: written as a whole, used once, fenced.

Open `files.py` first. `fenced_log.py` is a value that one owner at a time may replace, made of `record_files.py`.
Imports nothing of `actors`.
"""
