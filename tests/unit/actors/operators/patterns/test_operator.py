"""Patterns on streams: random ones against a matcher written from the definition, in random batches and rescaled."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from actors.operators.patterns.operator import PatternOperator
from flinkray import OutputTag, col
from flinkray.errors import IncompatibleStateError, UserFunctionError
from flinkray.execution import LATE_RECORDS_DROPPED
from flinkray.patterns.functions import Events, PatternContext, PatternProcessFunction, TimedOutPartialMatchHandler
from flinkray.patterns.pattern import Contiguity, Pattern, WithinType
from flinkray.transformations.operator_factories import PatternFactory
from flinkray.types.keys import ColumnKey
from tests.support.operators import FakeContext, OperatorHarness, code
from tests.support.patterns import has
from tests.support.rescaling import Subtasks

STRICT, RELAXED, ANY = Contiguity.STRICT, Contiguity.RELAXED, Contiguity.NON_DETERMINISTIC_RELAXED
LATE, OVER = OutputTag("late"), OutputTag("over")


class Part:
    """A part of a random pattern: how it follows, which letters match, how many events it takes, and so on."""

    def __init__(self, generator: random.Random, name: str, is_first: bool) -> None:
        self.name = name
        self.letters = "".join(generator.sample("abc", generator.choice([1, 1, 2])))
        self.contiguity = STRICT if is_first else generator.choice([STRICT, RELAXED, RELAXED, ANY])
        self.least, self.most = generator.choice([(1, 1), (1, 1), (1, None), (2, None), (2, 2), (1, 2), (1, 3)])
        self.is_repeated = (self.least, self.most) != (1, 1)
        self.inner = generator.choice([STRICT, RELAXED, ANY]) if self.is_repeated else RELAXED
        self.is_optional = not is_first and generator.random() < 0.25

    def behind(self, pattern: Pattern | None, is_function: bool) -> Pattern:
        if pattern is None:
            found = Pattern.begin(self.name)
        else:
            follow = {STRICT: pattern.next, RELAXED: pattern.followed_by, ANY: pattern.followed_by_any}
            found = follow[self.contiguity](self.name)
        letters = self.letters
        found = found.where((lambda row, letters=letters: row.name[0] in letters) if is_function else has(letters))
        if self.most is None:
            found = found.times_or_more(self.least)
        elif self.is_repeated:
            found = found.times(self.least, self.most)
        if self.inner is STRICT:
            found = found.consecutive()
        elif self.inner is ANY:
            found = found.allow_combinations()
        return found.optional() if self.is_optional else found


def expected(parts: Sequence[Part], events: Sequence[tuple[int, str]], window: int | None) -> Iterator[tuple[str, ...]]:
    """Each match, by the definition: the events of the parts one behind the other, between which only those lie that
    the contiguity of what follows lets lie there."""

    def follow(last: int | None, contiguity: Contiguity, letters: str) -> Iterator[int]:
        for place in range(0 if last is None else last + 1, len(events)):
            is_match = events[place][1][0] in letters
            if is_match:
                yield place
            if last is not None and (contiguity is STRICT or (contiguity is RELAXED and is_match)):
                return

    def ways(number: int, taken: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if number == len(parts):
            yield taken
            return
        part = parts[number]
        if part.is_optional:
            yield from ways(number + 1, taken)
        for place in follow(taken[-1] if taken else None, part.contiguity, part.letters):
            yield from rounds(number, 1, (*taken, place))

    def rounds(number: int, count: int, taken: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        part = parts[number]
        if count >= part.least:
            yield from ways(number + 1, taken)
        if part.most is None or count < part.most:
            for place in follow(taken[-1], part.inner, part.letters):
                yield from rounds(number, count + 1, (*taken, place))

    for found in ways(0, ()):
        if window is None or events[found[-1]][0] - events[found[0]][0] < window:
            yield tuple(events[place][1] for place in found)


def operator_of(pattern: Pattern, **settings: Any) -> PatternOperator:
    settings.setdefault("function", _names)
    settings.setdefault("mode", "select")
    return PatternOperator(code(PatternFactory(pattern=pattern, **settings)))


def _names(match: Events) -> str:
    return " ".join(row.name for rows in match.values() for row in rows)


@pytest.mark.parametrize("seed", range(4))
def test_matches_are_those_of_the_definition_whatever_the_batches_and_the_parallelism(seed: int) -> None:
    for round_ in range(12):
        generator = random.Random(f"{seed} {round_}")
        parts = [Part(generator, f"p{number}", number == 0) for number in range(generator.randint(1, 3))]
        is_function = generator.random() < 0.3
        pattern: Pattern | None = None
        for part in parts:
            pattern = part.behind(pattern, is_function)
        window = generator.choice([None, 4, 8])
        assert pattern is not None
        pattern = pattern if window is None else pattern.within(window)
        rows = [(time, generator.choice("xyz"), f"{generator.choice('abcd')}{time}") for time in range(30)]
        of_key = {key: [(time, name) for time, at, name in rows if at == key] for key in "xyz"}
        wanted = Counter(" ".join(each) for events in of_key.values() for each in expected(parts, events, window))
        assert Counter(run(pattern, rows, generator)) == wanted, (seed, round_, str(pattern), rows)


def run(pattern: Pattern, rows: list[tuple[int, str, str]], generator: random.Random) -> list[str]:
    """The results for rows that come a little out of order, in random batches, with random watermarks and rescaling."""
    arriving = sorted(rows, key=lambda row: row[0] + generator.random() * 3)
    subtasks = Subtasks(lambda: operator_of(pattern), [ColumnKey(("key",))], generator.randint(1, 3))
    found: list[str] = []
    while arriving:
        size = generator.randint(1, 9)
        some, arriving = arriving[:size], arriving[size:]
        data = {"key": [key for _, key, _ in some], "name": [name for _, _, name in some]}
        subtasks.push(data, [time for time, _, _ in some])
        if generator.random() < 0.6 and arriving:
            subtasks.watermark(min(time for time, _, _ in arriving) - 1)
        if generator.random() < 0.2:
            found += [row for row, _ in subtasks.take()]
            subtasks = subtasks.rescaled(generator.randint(1, 3))
    subtasks.watermark(2**40)
    return found + [row for row, _ in subtasks.take()]


def harness_of(operator: PatternOperator, **settings: Any) -> OperatorHarness:
    return OperatorHarness(operator, context=FakeContext(keys=(ColumnKey(("key",)),), **settings))


def rows_of(names: str) -> dict[str, list[str]]:
    return {"key": ["k"] * len(names.split()), "name": names.split()}


def test_events_are_taken_in_the_order_of_time_and_late_ones_go_to_their_output() -> None:
    pattern = Pattern.begin("a").where(has("a")).next("b").where(has("b"))
    for tag in (None, LATE):
        harness = harness_of(operator_of(pattern, late_tag=tag))
        harness.push(rows_of("b2 a1"), [20, 10])
        harness.watermark(20)
        harness.push(rows_of("a3 b4"), [20, 21])
        harness.watermark(30)
        assert (harness.output.rows, harness.output.timestamps) == (["a1 b2"], [20])
        sides = [each[1].data.to_pylist() for each in harness.output.elements if isinstance(each, tuple)]
        assert sides == ([[{"key": "k", "name": "a3"}]] if tag else [])
        assert harness.context.metrics.counters.get(LATE_RECORDS_DROPPED, 0) == (0 if tag else 1)


class Told(PatternProcessFunction, TimedOutPartialMatchHandler):
    def process_match(self, match: Events, ctx: PatternContext) -> Iterator[Any]:
        yield f"{_names(match)} at {ctx.timestamp()}"

    def process_timed_out_match(self, match: Events, ctx: PatternContext) -> Iterator[Any]:
        yield OVER, f"{_names(match)} until {ctx.timestamp()}"


def test_partial_matches_whose_time_is_over_are_told_with_the_end_of_their_time() -> None:
    pattern = Pattern.begin("a").where(has("a")).followed_by("b").where(has("b")).within(10)
    selected = operator_of(pattern, timed_out_tag=OVER, timed_out_select=lambda match, time: f"{_names(match)} {time}")
    for operator, result, over in (
        (operator_of(pattern, function=Told(), mode="process"), "a2 b1 at 12", "a1 until 10"),
        (selected, "a2 b1", "a1 10"),
    ):
        harness = harness_of(operator)
        harness.push(rows_of("a1 a2 b1"), [0, 5, 12])
        harness.watermark(100)
        sides = [each[1].data.column(0).to_pylist() for each in harness.output.elements if isinstance(each, tuple)]
        assert (harness.output.rows, sides) == ([result], [[over]])


def test_in_processing_time_events_are_taken_as_they_come_and_the_clock_ends_partial_matches() -> None:
    pattern = Pattern.begin("a").where(has("a")).not_followed_by("b").where(has("b")).within(10)
    harness = harness_of(operator_of(pattern, is_event_time=False))
    harness.push(rows_of("a1"))
    harness.advance(5)
    harness.push(rows_of("a2 b1 a3"))
    assert harness.output.rows == []
    harness.advance(30)
    assert (harness.output.rows, harness.output.timestamps) == (["a3"], [None])


def test_conditions_may_look_at_the_events_of_the_match_so_far() -> None:
    def rises(row: Any, ctx: Any) -> bool:
        before = ctx.get_events_for_pattern("a")
        return not before or row.name > before[-1].name

    pattern = Pattern.begin("a").where(has("a")).where(rises).one_or_more().consecutive().next("b").where(has("b"))
    harness = harness_of(operator_of(pattern))
    harness.push(rows_of("a1 a3 a2 a4 b1"), [1, 2, 3, 4, 5])
    harness.watermark(9)
    assert sorted(harness.output.rows) == ["a2 a4 b1", "a4 b1"]


def test_errors_of_conditions_and_functions_name_the_event_or_the_match() -> None:
    pattern = Pattern.begin("a").where(lambda row: row.missing > 1)
    failing = operator_of(Pattern.begin("a").where(has("a")), function=lambda match: match["z"])
    for operator, shown in (
        (operator_of(pattern), "name='a1'"),
        (failing, "'a': \\[Row"),
    ):
        harness = harness_of(operator)
        harness.push(rows_of("a1"), [1])
        with pytest.raises(UserFunctionError, match=shown):
            harness.watermark(5)


def test_state_of_another_pattern_is_refused() -> None:
    first = Pattern.begin("a").where(has("a")).next("b").where(has("b"))
    subtasks = Subtasks(lambda: operator_of(first), [ColumnKey(("key",))])
    subtasks.push(rows_of("a1"), [1])
    subtasks.watermark(1)
    snapshots = subtasks.snapshots()
    other = first.within(10)
    with pytest.raises(IncompatibleStateError, match=r"state was written for the pattern a where .* within 10 ms"):
        Subtasks(lambda: operator_of(other), [ColumnKey(("key",))], 1, snapshots)
    assert Subtasks(lambda: operator_of(first), [ColumnKey(("key",))], 2, snapshots).harnesses


def test_batch_mode_forgets_what_keys_that_have_ended_had() -> None:
    pattern = Pattern.begin("a").where(has("a")).next("b").where(has("b"))
    harness = harness_of(operator_of(pattern), is_batch=True)
    harness.push(rows_of("a1 b1 a2"), [1, 2, 3])
    harness.operator.end_keys()
    harness.push(rows_of("b2 a3 b3"), [1, 2, 3])
    harness.operator.end_keys()
    assert harness.output.rows == ["a1 b1", "a3 b3"]


def test_the_time_behind_the_event_before_counts_for_each_event_of_a_part() -> None:
    loop = Pattern.begin("a").where(has("a")).followed_by("b").where(col("name").str.contains("b")).one_or_more()
    pattern = loop.within(5, WithinType.PREVIOUS_AND_CURRENT).followed_by("c").where(has("c"))
    harness = harness_of(operator_of(pattern))
    harness.push(rows_of("a1 b1 b2 b3 c1"), [0, 4, 8, 14, 15])
    harness.watermark(50)
    assert sorted(harness.output.rows) == ["a1 b1 b2 c1", "a1 b1 c1"]
