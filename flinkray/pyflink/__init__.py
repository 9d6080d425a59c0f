"""PyFlink's module names: a PyFlink DataStream program runs here after `pyflink` became `flinkray.pyflink`.

Open `datastream/data_stream.py` first: flinkray's streams with PyFlink's argument names and its rule for types. Each
module is called as PyFlink's, and imports what it needs of flinkray's API.
"""
