"""What processes log: whose line each is, how it is written, and how the lines of a job are read again.

Open `context.py` first. `formats.py` writes lines as text or JSON, `levels.py` knows the levels that a program has set,
`setting_up.py` makes a process log so, `merging.py` puts what several processes have written in order. Knows nothing of
endpoints.
"""
