"""The runtime of `flinkray.testing`: operators and whole jobs that a test drives, step by step, in its own thread.

Open `pipeline_driver.py` first.
"""
