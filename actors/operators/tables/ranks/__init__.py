"""Rows of each key by their place in an order: the first ones, the last one, all of them sorted.

- `rank.py`: the first N rows of each key, over inserts and changelogs. Open it first.
- `rank_changes.py`: the changes from the rows that were among the first to those that are.
- `sort_codes.py`: columns of any type as integers that ascend as an order has them.
- `retractions.py`: which of equal rows are left when some are taken back.
- `deduplicate.py`: the first or last row of each key of a table of inserts; the smallest operator.
- `normalize.py`: the last row of each key, where changes say only what a row is now.
- `waiting.py`, `sort.py`: rows that wait until event time has reached them; all rows in an order.
"""
