"""Jobs that have ended, kept as files in the layout of Flink's archives, and a server that shows them.

`archiving.py` writes one when a job ends, `archives.py` reads a directory of them; open `archive.py` first.
"""
