"""A task's mailbox: mails from any thread, run one at a time between batches of input."""
