"""Event time as programs describe it: watermark strategies, windows as values, durations.

Open `watermarks.py` first; `time_units.py` has the units of Arrow's timestamps, `zones.py` time zones, `zone_names.py`
their names. The assigners that put rows into windows are in `flinkray.windows`; what the runtime does about time is in
`actors.operators.time`. Imports `flinkray.batches` and `flinkray.types`.
"""
