"""Operator coordinators: the part of a source or of a collecting sink that lives at the JobMaster.

Open `base.py` first; `source_coordinator.py` runs a source's enumerator, `threaded.py` gives that its own thread,
`collect_coordinator.py` holds rows for the driver, and `job_coordinators.py` has all coordinators of a job. Imports
`actors.protocol`, `actors.user_code`, `graphs` and `flinkray`.
"""
