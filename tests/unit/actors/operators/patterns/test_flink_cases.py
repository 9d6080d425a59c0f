"""The matches that Flink's own tests of its NFA expect (NFAITCase, GreedyITCase, NotPatternITCase, TimesOrMoreITCase,
GroupITCase, UntilConditionITCase, AfterMatchSkipITCase), with events named by the letters of their conditions."""

from __future__ import annotations

import pytest

from actors.operators.patterns.compiler import Atoms, compiled
from flinkray.errors import InvalidProgramError, RecordError
from flinkray.patterns.pattern import Pattern, WithinType
from flinkray.patterns.skipping import AfterMatchSkipStrategy as Skip
from tests.support.patterns import as_text, found_in, has, matches_of


def a(skip: Skip | None = None) -> Pattern:
    return Pattern.begin("a", skip or Skip.no_skip()).where(has("a"))


def c() -> Pattern:
    return Pattern.begin("c").where(has("c"))


def check(cases: list[tuple[Pattern, str, list[str]]]) -> None:
    for pattern, events, expected in cases:
        assert matches_of(pattern, events) == sorted(expected), (str(pattern), events)


def test_contiguity_says_what_may_lie_between_events() -> None:
    ends = "a1 c1 b1 b2"
    check(
        [
            (a().next("b").where(has("b")), ends, []),
            (a().next("b").where(has("b")), "a1 b1 b2", ["a1 b1"]),
            (a().followed_by("b").where(has("b")), ends, ["a1 b1"]),
            (a().followed_by_any("b").where(has("b")), ends, ["a1 b1", "a1 b2"]),
            (a().followed_by_any("b").where(has("b")), "a1 b1 a2 b2", ["a1 b1", "a1 b2", "a2 b2"]),
            (a().next("x").next("b").where(has("b")), ends, ["a1 c1 b1"]),
            (a().followed_by("b").where(has("b")).or_(has("c")), ends, ["a1 c1"]),
        ]
    )


def test_repeated_parts_take_as_many_events_as_they_may() -> None:
    b = a().followed_by("b").where(has("b"))
    events = "a1 b1 x b2 b3 d"
    d = has("d")
    check(
        [
            (Pattern.begin("s").where(has("a")).times(3), "a1 a2 a3 a4 a5", ["a1 a2 a3", "a2 a3 a4", "a3 a4 a5"]),
            (b.times(2).next("d").where(d), "a1 b1 b2 d", ["a1 b1 b2 d"]),
            (b.times(2).followed_by("d").where(d), events, ["a1 b1 b2 d"]),
            (b.times(1, 2).followed_by("d").where(d), events, ["a1 b1 d", "a1 b1 b2 d"]),
            (b.times(0, 1).followed_by("d").where(d), events, ["a1 d", "a1 b1 d"]),
            (b.one_or_more().followed_by("d").where(d), events, ["a1 b1 d", "a1 b1 b2 d", "a1 b1 b2 b3 d"]),
            (b.one_or_more().consecutive().followed_by("d").where(d), events, ["a1 b1 d"]),
            (b.times_or_more(2).followed_by("d").where(d), events, ["a1 b1 b2 d", "a1 b1 b2 b3 d"]),
            (b.times(2).consecutive().followed_by("d").where(d), events, []),
            (
                b.times(2).allow_combinations().followed_by("d").where(d),
                events,
                ["a1 b1 b2 d", "a1 b1 b3 d"],
            ),
            (
                b.one_or_more().allow_combinations().followed_by("d").where(d),
                events,
                ["a1 b1 d", "a1 b1 b2 d", "a1 b1 b3 d", "a1 b1 b2 b3 d"],
            ),
            (b.optional().followed_by("d").where(d), events, ["a1 d", "a1 b1 d"]),
            (a().followed_by_any("b").where(has("b")).optional(), "a1 b1", ["a1", "a1 b1"]),
            (c().next("a").where(has("a")).one_or_more().optional().next("d").where(d), "c1 d", ["c1 d"]),
        ]
    )


def test_greedy_parts_leave_nothing_that_they_may_take() -> None:
    zero = c().followed_by("a").where(has("a")).one_or_more().optional().greedy()
    one = c().followed_by("a").where(has("a")).one_or_more().greedy()
    d, until = has("d"), has("u")
    group = Pattern.begin("d1").where(d).followed_by("e1").where(has("e"))
    check(
        [
            (zero.followed_by("d").where(d), "c a1 a2 a3 d", ["c a1 a2 a3 d"]),
            (zero.followed_by("d").where(d), "c x a1 y a2 z a3 d", ["c a1 a2 a3 d"]),
            (zero.followed_by("d").where(d), "c a1 a2 x d", ["c a1 a2 d"]),
            (zero.followed_by("d").where(d), "c x d", ["c d"]),
            (zero.until(until).followed_by("d").where(d), "c a1 a2 a3 au d", ["c a1 a2 a3 d"]),
            (zero.until(until).followed_by("d").where(d), "c au a1 a2 a3 d", ["c d"]),
            (one.followed_by("d").where(d), "c a1 a2 a3 d", ["c a1 a2 a3 d"]),
            (one.followed_by("d").where(d), "c x d", []),
            (one.until(until).followed_by("d").where(d), "c a1 a2 a3 au d", ["c a1 a2 a3 d"]),
            (one.until(until).followed_by("d").where(d), "c au a1 a2 a3 d", []),
            (
                zero.followed_by(group).times(2).followed_by("f").where(has("f")),
                "c a1 a2 x a3 d1 e1 d2 e2 f",
                ["c a1 a2 a3 d1 d2 e1 e2 f"],
            ),
            (
                c().followed_by("a").where(has("a")).times(2, 5).greedy().followed_by("d").where(d),
                "c a1 a2 a3 a4 d",
                ["c a1 a2 a3 a4 d"],
            ),
        ]
    )


def test_what_must_not_come_ends_a_match() -> None:
    b = has("b")
    not_next = a().not_next("b").where(b)
    not_followed = a().not_followed_by("b").where(b)
    d = has("d")
    c_any = "a1 c1 b1 c2 d"
    bs = "a1 b1 b2 b3 c1 b4 b5 b6 d1"
    in_front = not_followed.followed_by_any("m").where(has("c"))
    no_c = {"name": "no c"}
    check(
        [
            (not_next.followed_by_any("m").where(has("c")).followed_by("d").where(d), c_any, ["a1 c1 d", "a1 c2 d"]),
            (not_next.followed_by("m").where(has("c")).followed_by("d").where(d), "a1 b1 c1 c2 d", []),
            (a().followed_by_any("d").where(d).not_next("b").where(b), "a1 c1 c2 d b1", []),
            (a().followed_by_any("d").where(d).not_next("b").where(b), "a1 c1 c2 d c3", ["a1 d"]),
            (in_front.followed_by("d").where(d), c_any, ["a1 c1 d"]),
            (in_front.optional().followed_by("d").where(d), c_any, ["a1 c1 d"]),
            (in_front.optional(), "a1 c1 b1 c2", ["a1", "a1 c1"]),
            (in_front.times(2).optional().followed_by("d").where(d), c_any, ["a1 c1 c2 d"]),
            (in_front.times(2).optional().followed_by("d").where(d), "a1 d1 e b1 c1 c2 d2", ["a1 d1"]),
            (not_followed.followed_by("m").where(has("c")).followed_by("d").where(d), "a1 b1 c1 a2 c2 d", ["a2 c2 d"]),
            (
                a()
                .followed_by_any("b")
                .where(b)
                .times(2)
                .not_followed_by(**no_c)
                .where(has("c"))
                .followed_by("d")
                .where(d),
                "a1 b1 c b2 d",
                [],
            ),
            (
                a().followed_by("b").where(b).one_or_more().not_next("c").where(has("c")).followed_by("d").where(d),
                "a1 b1 c1 b2 d",
                [],
            ),
            (
                a().followed_by_any("b").where(b).one_or_more().not_next("c").where(has("c")).followed_by("d").where(d),
                "a1 b1 c1 b2 d",
                ["a1 b2 d"],
            ),
            (
                a()
                .followed_by("b")
                .where(b)
                .one_or_more()
                .not_followed_by(**no_c)
                .where(has("c"))
                .followed_by("d")
                .where(d),
                bs,
                [],
            ),
            (
                a()
                .followed_by_any("b")
                .where(b)
                .one_or_more()
                .not_followed_by(**no_c)
                .where(has("c"))
                .followed_by("d")
                .where(d),
                bs,
                ["a1 b4 b5 b6 d1", "a1 b4 b5 d1", "a1 b4 d1", "a1 b5 b6 d1", "a1 b5 d1", "a1 b6 d1"],
            ),
            (
                a()
                .not_followed_by(**no_c)
                .where(has("c"))
                .followed_by("b")
                .where(b)
                .one_or_more()
                .followed_by("d")
                .where(d),
                "a1 b1 c1 b4 b5 b6 d1",
                ["a1 b1 b4 b5 b6 d1", "a1 b1 b4 b5 d1", "a1 b1 b4 d1", "a1 b1 d1"],
            ),
        ]
    )


def test_groups_are_repeated_and_left_out_as_a_whole() -> None:
    pair = Pattern.begin("a").where(has("a")).followed_by("b").where(has("b"))
    d, events = has("d"), "c a1 b1 a2 b2 d"
    check(
        [
            (c().followed_by(pair).times(2).followed_by("d").where(d), events, ["c a1 a2 b1 b2 d"]),
            (c().followed_by(pair).optional().followed_by("d").where(d), "c a1 a2 b d", ["c d", "c a1 b d"]),
            (c().followed_by(pair).times(2).optional().followed_by("d").where(d), "c a d", ["c d"]),
            (c().followed_by(pair).one_or_more().followed_by("d").where(d), events, ["c a1 b1 d", "c a1 a2 b1 b2 d"]),
            (
                c().followed_by(pair).one_or_more().optional().followed_by("d").where(d),
                events,
                ["c d", "c a1 b1 d", "c a1 a2 b1 b2 d"],
            ),
            (Pattern.begin(pair).times(2).followed_by("d").where(d), "a1 b1 a2 b2 d", ["a1 a2 b1 b2 d"]),
        ]
    )


def test_until_ends_a_loop() -> None:
    until = has("u")
    middle = c().followed_by("a").where(has("a"))
    end, events = ("end",), "c a1 a2 au a3"
    check(
        [
            (middle.one_or_more().until(until).followed_by(*end).where(until), events, ["c a1 a2 au", "c a1 au"]),
            (
                middle.one_or_more().allow_combinations().until(until).followed_by(*end).where(until),
                "c a1 a2 a3 au a4",
                ["c a1 a2 a3 au", "c a1 a2 au", "c a1 a3 au", "c a1 au"],
            ),
            (
                middle.one_or_more().optional().until(until).followed_by(*end).where(until),
                events,
                ["c a1 a2 au", "c a1 au", "c au"],
            ),
            (
                c().followed_by_any("a").where(has("a")).one_or_more().until(until),
                events,
                ["c a1 a2", "c a1", "c a2", "c a3"],
            ),
            (c().followed_by("m").one_or_more().until(until), "c a1 a2 d au a3", ["c a1 a2 d", "c a1 a2", "c a1"]),
        ]
    )


def test_skipping_says_which_other_matches_are_given() -> None:
    def ab(skip: Skip) -> Pattern:
        return Pattern.begin("s", skip).where(has("a")).times(2).next("end").where(has("b")).times(2)

    def b_loop(skip: Skip) -> Pattern:
        return a(skip).next("b").where(has("b")).one_or_more().consecutive()

    def a_loop(skip: Skip) -> Pattern:
        return a(skip).one_or_more().consecutive().greedy().next("b").where(has("b"))

    def b_or_none(skip: Skip) -> Pattern:
        return b_loop(skip).optional().next("c").where(has("c"))

    abs_ = "ab1 ab2 ab3 ab4 ab5 ab6"
    past, next_ = Skip.skip_past_last_event(), Skip.skip_to_next()
    discarding = Pattern.begin("a or c", Skip.skip_to_first("c*")).where(has("ac")).followed_by("b or c")
    discarding = discarding.where(has("bc")).followed_by("c*").where(has("c")).one_or_more().greedy()
    check(
        [
            (a(past).times(3), "a1 a2 a3 a4 a5 a6", ["a1 a2 a3", "a4 a5 a6"]),
            (a(next_).followed_by_any("b").where(has("b")), "a1 b1 a2 b2", ["a1 b1", "a2 b2"]),
            (a(next_).next("b").where(has("b")).one_or_more(), "a1 b1 b2 b3", ["a1 b1"]),
            (a().next("b").where(has("b")).one_or_more(), "a1 b1 b2 b3", ["a1 b1", "a1 b1 b2", "a1 b1 b2 b3"]),
            (ab(Skip.skip_to_first("end")), abs_, ["ab1 ab2 ab3 ab4", "ab3 ab4 ab5 ab6"]),
            (ab(Skip.skip_to_last("end")), f"{abs_} ab7", ["ab1 ab2 ab3 ab4", "ab4 ab5 ab6 ab7"]),
            (a(past).next("b").where(has("b")), "a1 c a2 b2", ["a2 b2"]),
            (a(Skip.skip_to_first("a")).next("c").where(has("c")), "a1 c1 a2 c2", ["a1 c1", "a2 c2"]),
            (b_loop(Skip.skip_to_first("b")), "a1 b1 a2 b2 b3 a3 b4", ["a1 b1", "a2 b2", "a3 b4"]),
            (b_loop(Skip.skip_to_last("b")), "a1 b1 a2 b2 b3 a3 b4", ["a1 b1", "a2 b2", "a3 b4"]),
            (b_or_none(Skip.skip_to_first("b")), "a c", ["a c"]),
            (a_loop(past), "a1 a2 a3 b1", ["a1 a2 a3 b1"]),
            (a_loop(Skip.skip_to_last("a")), "a1 a2 a3 b1", ["a1 a2 a3 b1", "a3 b1"]),
            (a_loop(Skip.skip_to_first("a")), "a1 a2 a3 b1", ["a1 a2 a3 b1", "a2 a3 b1", "a3 b1"]),
            (discarding.followed_by("d").where(has("d")), "a b c1 c2 c3 d", ["a b c1 c2 c3 d", "c1 c2 c3 d"]),
        ]
    )
    for skip in (Skip.skip_to_first("b"), Skip.skip_to_last("b")):
        with pytest.raises(RecordError, match="could not skip to b: a match has no such event"):
            matches_of(b_or_none(skip.throw_exception_on_miss()), "a c")
    with pytest.raises(RecordError, match="would be found for ever"):
        matches_of(a(Skip.skip_to_first("a").throw_exception_on_miss()), "a1")


def test_a_match_that_begins_earlier_is_awaited_before_a_later_one_skips_it() -> None:
    pattern = Pattern.begin("a", Skip.skip_past_last_event()).where(has("a")).followed_by("b").where(has("b"))
    found = found_in(pattern.followed_by("c").where(has("c")).within(10), "a1 a2 b1 c1")
    assert [as_text(match) for _, match in found.matches] == ["a1 b1 c1"]


def test_time_limits_end_partial_matches() -> None:
    whole = a().followed_by("b").where(has("b")).within(10)
    gap = (
        a().followed_by("b").where(has("b")).within(5, WithinType.PREVIOUS_AND_CURRENT).followed_by("c").where(has("c"))
    )
    not_at_end = a().not_followed_by("b").where(has("b")).within(10)
    cases = [
        (whole, "a1 b1", [0, 9], ["a1 b1"], []),
        (whole, "a1 b1", [0, 10], [], [("a1", 10)]),
        (whole, "a1 a2 b1", [0, 5, 12], ["a2 b1"], [("a1", 10)]),
        (gap, "a1 b1 c1", [0, 4, 99], ["a1 b1 c1"], []),
        (gap, "a1 b1 c1", [0, 5, 6], [], [("a1", 5)]),
        (not_at_end, "a1 x1 x2", [0, 9, 10], ["a1"], []),
        (not_at_end, "a1 b1 x2", [0, 9, 10], [], []),
    ]
    for pattern, events, times, matches, timed_out in cases:
        found = found_in(pattern, events, times)
        assert [as_text(match) for _, match in found.matches] == matches, (events, times)
        assert [(as_text(match), match.time) for _, match in found.timed_out] == timed_out, (events, times)


def test_patterns_that_mean_nothing_are_refused() -> None:
    b = a().followed_by("b")
    cases = [
        (lambda: compiled_of(a().next("a")), "two parts of a pattern have the name 'a'"),
        (lambda: compiled_of(a().not_followed_by("b")), "it needs the time after which nothing has followed"),
        (lambda: compiled_of(a(Skip.skip_to_first("z"))), "no part 'z' to skip to; parts: a"),
        (
            lambda: compiled_of(b.within(9, WithinType.PREVIOUS_AND_CURRENT).next("c").within(5)),
            "than the whole pattern",
        ),
        (lambda: compiled_of(a().next(Pattern.begin("x").optional()).one_or_more()), "a part that is not optional"),
        (lambda: b.times(2).times(3), "has been told how many events it takes"),
        (lambda: b.times(2, 1), "in ascending order"),
        (lambda: b.until(has("u")), "until is for parts that take any number of events"),
        (lambda: b.greedy(), "comes behind times"),
        (lambda: b.times(2).allow_combinations().greedy(), "greedy does not go with allow_combinations"),
        (lambda: b.times(1, 2).greedy().next("c").optional(), "as 'b' before it is greedy"),
        (lambda: b.times(1, 2).greedy().next("c").times(0, 2), "as 'b' before it is greedy"),
        (lambda: b.optional().not_next("c"), "is optional, which Flink does not support"),
        (lambda: a().not_next("c").optional(), "not for parts that must not be there"),
        (lambda: b.within(0), "above 0"),
        (lambda: b.where("price > 3"), "takes an expression such as"),  # type: ignore[arg-type]
        (lambda: Pattern.begin(""), "begin takes the name of a part"),
    ]
    for make, message in cases:
        with pytest.raises(InvalidProgramError, match=message):
            make()


def compiled_of(pattern: Pattern) -> object:
    return compiled(pattern, Atoms(pattern, callable))
