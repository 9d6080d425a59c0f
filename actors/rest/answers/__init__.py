"""What masters say in the shapes of Flink's REST interface: values in, values out.

`jobs.py` is the one to open first; `states.py` and `aggregates.py` have what all of them need.
"""
