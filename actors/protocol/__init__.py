"""What is said between processes and what flows between tasks; and what the runtime asks of its host.

Open `ports.py` first: the protocols that hosts implement. `elements.py` is what flows (batches, watermarks, barriers).
Messages are frozen values that name their epoch, in a module for each group of senders and receivers: clients
(`client_requests.py`), masters and TaskExecutors (`control_messages.py`), JobMasters and tasks (`task_messages.py`),
operators and their coordinators (`operator_events.py`), slots and slots (`data_messages.py`). Imports `flinkray`, and
of `graphs` only names of types.
"""
