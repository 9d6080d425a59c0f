"""What the option `connector` of a table names: sources and sinks of the project, made from the table's options.

- `connectors.py`: all of them by name, and tables as transformations and sinks. Open it first.
- `options.py`: options with their types, of which each connector asks for its own; `contract.py`: what it gives.
- `formats.py`: formats of messages by name, with their options.
- one module for each connector.
"""
