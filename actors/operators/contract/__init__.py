"""What an operator is: the contract between a task and the operators of its chain.

Open `operator.py` first. `chunking.py` cuts a batch into chunks, so that the task looks at its mailbox in time, and
`pieces.py` what comes all at once otherwise; `held_rows.py` counts rows that operators have taken and not finished. May
import `actors.protocol` and what a snapshot is made of.
"""
