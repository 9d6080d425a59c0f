"""The streams that a program is made of, and the environment where it begins and is run.

Open `data_stream.py` or `environment.py` first. Methods of streams give streams of other kinds, so modules of stream
classes import each other on purpose. Each call leaves a record of `flinkray.transformations`; nothing is executed here.
What is set is in `settings/`, what is checked meanwhile in `checks/`.
"""
