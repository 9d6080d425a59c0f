"""The inputs of a task: one element at a time, fairly between inputs; sorted by key in batch mode.

Open `input_processor.py` first. `sorted_inputs.py` collects the rows of a batch program for `key_sorter.py` to sort.
May import `actors.tasks.chain`, `actors.operators` and `actors.network`.
"""
