"""Drives a job through its life: what is deployed when, with `slots`, `failover` and `liveness`. Pure decisions.

Open `scheduler.py` first (Flink's DefaultScheduler). What carries its commands out is `actors.jobs`. Imports
`actors.protocol`, `graphs` and `flinkray`.
"""
