"""When the state of windows and joins is compacted: the three rules, each with its reason.

All of them let state grow by a share of itself first, so that what compacting costs is a constant per row.

- Numbers of what is over (accumulators, sessions) are not used again. The others are numbered anew when most numbers
  are of what is over: `is_mostly_released`.
- What nobody counts, such as keys without rows, is looked for when there is twice as much as after the last look:
  `has_doubled`.
- Sorted runs, as of an LSM tree, are merged when there are some of about the same size: `are_due_to_merge`.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized


def is_mostly_released(released: int, live: int, fewest: int) -> bool:
    """Whether more is released than live, and more than `fewest`: for fewer, numbering anew costs more than it
    saves."""
    return released > max(fewest, live)


def has_doubled(count: int, last_count: int, fewest: int) -> bool:
    """Whether there is twice as much as when it was last looked at, and more than `fewest`."""
    return count > max(fewest, 2 * last_count)


def are_due_to_merge(runs: Sequence[Sized], fan_in: int) -> bool:
    """Whether the last `fan_in` sorted runs, oldest first, are about as large as one another and to become one.

    So there are few runs to look into, and an entry is merged as often as the logarithm of how many entries there are.
    """
    return len(runs) >= fan_in and len(runs[-fan_in]) <= fan_in * len(runs[-1])
