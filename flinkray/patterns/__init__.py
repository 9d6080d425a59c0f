"""What a program says of patterns of events: their parts, conditions and time limits, and what is done with matches.

Open `pattern.py` first; `skipping.py` says where the search goes on behind a match, and `functions.py` has the
functions that get matches. Names and meaning are those of Flink's CEP library. Nothing is matched here:
`actors.operators.patterns` does that.
"""
