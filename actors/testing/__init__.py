"""The runtime of `flinkray.testing`: operators and whole jobs that a test drives, step by step, in its own thread.

Open `pipeline_driver.py` first: harnesses of operators. `context.py` and `snapshots.py` stand for an operator's task
and its checkpoints, `simulation.py` runs whole jobs under faults. May import all other rooms of `actors`.
"""
