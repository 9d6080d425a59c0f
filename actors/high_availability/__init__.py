"""What outlives a master: jobs, who leads them, and which checkpoints they go on from (Flink's HA services)."""
