"""Rules: each rewrites a plan to one that gives the same rows. Open `order.py`, which has them in their order."""
