"""`flinkray sql`: statements from a prompt, a file or the command line.

- `client.py`: what becomes of each statement. Open it first.
- `pieces.py`: where statements end in a text. `completion.py`: what a word may go on as.
- `prompt.py`: lines from a terminal. `screen.py`: results that change on it; `shown_rows.py`: what is shown of them.
- `jobs.py`: jobs by name: those that the client has started, and those of its cluster.
- `command.py`: the command.
"""
