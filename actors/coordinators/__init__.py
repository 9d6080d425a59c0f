"""Operator coordinators: the part of a source or of a collecting sink that lives at the JobMaster.

Open `base.py` first; `source_coordinator.py` runs a source's enumerator.
"""
