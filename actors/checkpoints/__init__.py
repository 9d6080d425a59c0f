"""Checkpoints of a job: when they are taken (`coordination`), their files (`storage`), starting from one (`restore`).

Open `coordination/coordinator.py` first. A task's own part is in `actors.tasks.checkpoints`, and what operators put
into a checkpoint in `actors.state.snapshots`. May import `actors.protocol`, `actors.storage` and
`actors.state.snapshots`.
"""
