"""Files as a source and as a sink that commits with checkpoints.

Open `source.py` or `sink.py` first. `formats.py` cuts a file into splits and reads them, `groups.py` joins small files
into one split, `commits.py` makes written files visible once. Imports `flinkray.connectors.formats` and the contracts.
"""
