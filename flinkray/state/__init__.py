"""State as programs describe it: descriptors, time to live, state backends, checkpoints and restarts.

Open `descriptors.py` first. What keeps the state while a job runs is in `actors.state`, what takes checkpoints in
`actors.checkpoints`, and what decides about restarts in `actors.scheduling.failover`. Imports `flinkray.config` and
`flinkray.time`.
"""
