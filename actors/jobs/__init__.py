"""One job at its JobMaster: scheduler, coordinators and checkpoints together, and whom it speaks with.

Open `running_job.py` first. `job_checkpoints.py` carries out what the checkpoint coordinator decides, `recovery.py`
finds the checkpoint that a job goes on from.
"""
