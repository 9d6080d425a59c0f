"""One job at its JobMaster: scheduler, coordinators and checkpoints together, and whom it speaks with.

Open `running_job.py` first. `job_checkpoints.py` carries out what the checkpoint coordinator decides,
`checkpoint_write.py` what of that blocks, and `recovery.py` finds the checkpoint that a job goes on from.
`resource_manager_connection.py` and `dispatcher_connection.py` are the JobMaster's sides of two conversations, and
`services.py` is what the parts of a job may use of it. Imports `actors.scheduling`, `actors.checkpoints`,
`actors.coordinators`, `actors.high_availability` and what is below them.
"""
