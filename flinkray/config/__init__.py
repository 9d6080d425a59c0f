"""Settings: what an option is, all options, the values that a program gives them, and where values come from.

Open `options.py` first: every option is declared there, once. `configuration.py` holds values, `sources.py` reads them
from the environment and from a file. Imports `flinkray.errors` and `flinkray.time`.
"""
