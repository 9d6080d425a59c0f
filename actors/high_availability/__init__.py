"""What outlives a master: jobs, who leads them, and which checkpoints they go on from (Flink's HA services).

Open `job_store.py` first. What is written lies in records of `actors.storage`.
"""
