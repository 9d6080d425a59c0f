"""When state of windows is compacted."""

from __future__ import annotations

from actors.operators.windows.base.compaction import are_due_to_merge, has_doubled, is_mostly_released


def test_numbers_are_given_anew_when_most_are_of_what_is_over_and_not_for_a_few() -> None:
    assert is_mostly_released(released=101, live=100, fewest=10)
    assert not is_mostly_released(released=100, live=100, fewest=10)
    assert not is_mostly_released(released=10, live=0, fewest=10)


def test_state_is_looked_through_when_there_is_twice_as_much_as_after_the_last_look() -> None:
    assert has_doubled(count=201, last_count=100, fewest=10)
    assert not has_doubled(count=200, last_count=100, fewest=10)
    assert not has_doubled(count=10, last_count=0, fewest=10)


def test_an_entry_is_merged_as_often_as_the_logarithm_of_how_many_there_are() -> None:
    runs: list[range] = []
    merged = 0
    for _ in range(4**5):
        runs.append(range(1))
        while are_due_to_merge(runs, 4):
            size = sum(map(len, runs[-4:]))
            merged += size
            runs[-4:] = [range(size)]
    assert len(runs) <= 3 * 5 + 1
    assert merged <= 5 * 4**5
