"""Tasks: a chain of operators with its inputs and outputs, driven by a mailbox."""
