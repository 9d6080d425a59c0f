"""What is said between processes and what flows between tasks; and what the runtime asks of its host.

Open `ports.py` first: the protocols that hosts implement. `elements.py` is what flows (batches, watermarks, barriers),
`data_messages.py` what tasks and slots are told, `control_messages.py` what masters say to each other. Messages are
frozen values that name their epoch.
"""
