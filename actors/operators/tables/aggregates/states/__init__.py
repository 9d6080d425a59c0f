"""What aggregates keep of each group, and the rows that they take.

- `grouped_rows.py`: the rows of a batch by group.
- `arguments.py`: which rows an aggregate takes, and their values.
- `group_state.py`: what is kept for each group: numbers in arrays.
- `linear.py`: counts and sums. What is taken back is subtracted.
- `moments.py`: how many numbers there are, their mean, and how far they are from it.
- `extremes.py`: the least or largest value so far, and the first or last one, of groups that only grow.
- `value_sets.py`: how often each group has each value, for DISTINCT, and extremes that may be taken back.
- `value_lists.py`: the values of each group in the order in which they came.
"""
