"""What is set for an operator, and for a whole environment.

Open `operator_settings.py` first: name, uid, parallelism, chaining, slots. Imports `flinkray.transformations`,
`flinkray.state` and `flinkray.config`.
"""
