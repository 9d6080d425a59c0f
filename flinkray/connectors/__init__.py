"""Sources and sinks: their contracts, and a package for each that comes with flinkray.

Open `source.py` and `sink.py` first, the contracts that users implement as well. `split_list.py` is the base of sources
whose splits are a list. A connector imports `flinkray.batches`, `types` and `functions`, and connectors listed before
it in the architecture test.
"""
