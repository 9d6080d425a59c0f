"""What all window operators share: late rows, when windows fire and are over, and their result batches.

Open `operator.py` first, which decides what is late; `times.py` is the arithmetic of aligned windows, and
`compaction.py` says when state is compacted. Imports the rooms of the operators' contract, columns and state.
"""
