"""When a checkpoint is triggered, who takes part, when it is complete, expired or aborted, and how long it is retained.

Pure decisions; `actors.jobs` carries out the commands. Open `coordinator.py` first (Flink's CheckpointCoordinator).
`pending.py` is a checkpoint under way, `expiry.py` aborts one that takes too long, `failures.py` counts those that
fail, and `retained.py` decides which completed ones are deleted. May import `actors.protocol` and graphs.
"""
