"""Reading: a cursor over tokens, and a module for each part of the language. Open `parser` first.

Each class extends the one before: `cursor`, `types`, `expressions` (operators by precedence), `calls` (functions and
windows), `patterns` (MATCH_RECOGNIZE), `relations`, `queries`, then the statements: `tables` (CREATE and ALTER TABLE),
`catalogs` (what else is created, altered and dropped), `statements` (all others).
"""
