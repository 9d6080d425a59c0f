"""Which subtask starts from which part of a checkpoint, whatever changed in the program. Pure decisions.

Open `assignment.py` first. `matching.py` finds the state of each operator, `in_flight_assignment.py` says who processes
rows that an unaligned barrier overtook.
"""
