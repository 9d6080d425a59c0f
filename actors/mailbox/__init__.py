"""A task's mailbox: mails from any thread, run one at a time between batches of input (Flink's mailbox model).

Open `processor.py` first, the loop of a task; `task_mailbox.py` is its queue, `executor.py` how others post to it.
Imports nothing else of `actors`.
"""
