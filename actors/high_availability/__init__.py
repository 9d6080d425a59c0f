"""What outlives a master: jobs, who leads them, and which checkpoints they go on from (Flink's HA services).

Open `job_store.py` first, for the Dispatcher, or `pointers.py`, for JobMasters. What is written lies in records of
`actors.storage`. Imports `actors.protocol`, `actors.storage` and `flinkray`.
"""
