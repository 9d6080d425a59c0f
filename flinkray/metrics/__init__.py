"""What jobs export to Ray's metrics endpoint, and a dashboard and alerts over it.

Open `catalogue.py` first: the one list that the dashboard and the documentation are made of.
"""
