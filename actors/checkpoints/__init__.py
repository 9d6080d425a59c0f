"""When checkpoints are taken (`coordination`), what is on disk (`storage`), how a job starts from one (`restore`).

A task's own part is in `actors.tasks.checkpoints`, and what operators put into one in `actors.state.snapshots`.
"""
