"""Which joins hold rows near each other in time, and how near."""

from __future__ import annotations

import pytest

from flinkray.tables.binding.binder import bind_query, execute_ddl
from flinkray.tables.catalog import Catalog
from flinkray.tables.plans.changelogs import changes_of
from flinkray.tables.plans.explain import expression_text
from flinkray.tables.plans.expressions import Plan
from flinkray.tables.plans.interval_bounds import interval_bounds
from flinkray.tables.plans.nodes import Join
from flinkray.tables.plans.rules.order import optimized
from flinkray.types.changelogs import INSERTS

TABLES = (
    "CREATE TABLE a (k INT, t TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR t AS t)",
    "CREATE TABLE b (k INT, u TIMESTAMP(3), q AS PROCTIME(), s TIMESTAMP(3), WATERMARK FOR u AS u)",
)


def join_of(condition: str, kind: str = "JOIN") -> Join:
    catalog = Catalog()
    for sql in TABLES:
        execute_ddl(catalog, sql)
    plan: Plan = optimized(bind_query(catalog, f"SELECT * FROM a {kind} b ON {condition}"))
    while not isinstance(plan, Join):
        (plan,) = plan.inputs
    return plan


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        ("t BETWEEN u - INTERVAL '1' SECOND AND u + INTERVAL '2' SECOND", (-2000, 1000)),
        ("u >= t AND u <= t + INTERVAL '1' MINUTE", (0, 60000)),
        ("u > t AND t + INTERVAL '1' SECOND > u", (1, 999)),
        ("INTERVAL '1' SECOND + t <= u AND u - INTERVAL '3' SECOND < t AND u < t + INTERVAL '9' SECOND", (1000, 2999)),
        ("t = u", (0, 0)),
        ("p BETWEEN q - INTERVAL '1' SECOND AND q", (0, 1000)),
    ],
)
def test_comparisons_of_times_bound_how_far_they_are_apart(condition: str, bounds: tuple[int, int]) -> None:
    for more in ("", " AND a.k = b.k"):
        plan = join_of(condition + more)
        found = interval_bounds(plan)
        assert found is not None
        assert (found.lower_ms, found.upper_ms) == bounds
        assert found.condition is None
        assert changes_of(plan) == INSERTS


@pytest.mark.parametrize(
    "condition",
    [
        "t > u",  # one side is open
        "t BETWEEN s - INTERVAL '1' SECOND AND s",  # no time attribute
        "t BETWEEN q - INTERVAL '1' SECOND AND q",  # of two kinds
        "t BETWEEN u - INTERVAL '1' MONTH AND u",  # of no fixed length
    ],
)
def test_without_both_bounds_on_two_time_attributes_a_join_is_a_regular_one(condition: str) -> None:
    assert interval_bounds(join_of(f"{condition} AND a.k = b.k")) is None


def test_what_the_condition_says_of_other_things_is_left() -> None:
    found = interval_bounds(join_of("u BETWEEN t AND t + INTERVAL '1' SECOND AND a.k < b.k", "LEFT JOIN"))
    assert found is not None
    assert found.condition is not None
    assert expression_text(found.condition, ["k", "t", "p", "k0", "u", "q", "s"]) == "k < k0"
