"""The sink operator: runs a writer, and commits what it prepared with checkpoints.

Open `operator.py` first. `collect_writer.py` sends rows to the driver. May import `actors.state` and
`actors.user_code`.
"""
