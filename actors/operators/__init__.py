"""The operators: what a task does with its batches. None of them knows of a cluster."""
