"""Ray's own jobs, which `ray job submit` starts: `submission.py` runs commands as such."""
