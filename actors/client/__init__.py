"""What a driver does: executors, the client of a job, sessions, and the command line."""
