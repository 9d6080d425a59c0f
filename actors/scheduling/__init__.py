"""The decisions about slots and tasks, without any input, output, thread or clock."""
