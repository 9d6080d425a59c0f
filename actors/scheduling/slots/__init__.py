"""Slots: which there are, whose they are, and which subtasks share one.

Open `slot_manager.py` (at the ResourceManager), `slot_pool.py` (at a JobMaster) or `slot_table.py` (at a TaskExecutor);
`slot_sharing.py` says which subtasks go into one slot. Pure decisions. Imports `actors.protocol`, `graphs` and
`flinkray`.
"""
