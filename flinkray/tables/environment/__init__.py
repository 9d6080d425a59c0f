"""What statements do beside planning: they change catalogs and settings, show them, and start jobs.

- `environment.py`: the TableEnvironment, on top of `statements.py`: which statement gives what. Open that first.
- `statement_sets.py`: INSERTs that run later.
- `changes.py`: CREATE, ALTER, DROP and USE. `shows.py`: SHOW and DESCRIBE, with the texts of `create_texts.py`.
- `answers.py`: what a statement answers that starts no job; `results.py`: the TableResult of any statement.
- `tableau.py`, `value_texts.py`: results as text, as Flink prints them; `html.py`: in a notebook.
- `programs.py`: plans of a catalog's tables as transformations, from sources and into sinks; `function_lowering.py`:
  the functions of the user's in them.
"""
