"""A task's mailbox: mails from any thread, run one at a time between batches of input (Flink's mailbox model).

Open `processor.py` first. Imports nothing of `actors`.
"""
