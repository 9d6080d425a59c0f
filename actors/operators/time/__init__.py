"""Event time in the runtime: timestamps and watermarks from rows, the valve that combines channels, timers.

`timestamps.py` gives rows event time and makes watermarks, `rowtime.py` keeps event times and a column the same,
`watermark_valve.py` combines those of channels, `timers.py` fires timers of keyed operators. May import the contract of
operators, `actors.state`, `actors.user_code` and `actors.operators.expressions`.
"""
