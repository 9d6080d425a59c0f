"""When a checkpoint is taken, who takes part, whether it is complete, and how long it is kept. Pure decisions.

Open `coordinator.py` first (Flink's CheckpointCoordinator). What carries its commands out is `actors.jobs`.
"""
