"""Which joins become which operators."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from flinkray.connectors.lookup import LookupReader, LookupTable
from flinkray.errors import SqlValidationError
from flinkray.tables.binding.binder import bind_query, execute_ddl
from flinkray.tables.catalog import DEFAULT_CATALOG, DEFAULT_DATABASE, Catalog
from flinkray.tables.lowering.contract import TableOptions, Unexecutable
from flinkray.tables.lowering.lowering import PlanLowering
from flinkray.tables.plans.expressions import Plan
from flinkray.tables.plans.nodes import WatermarkAssigner
from flinkray.tables.plans.rules.order import optimized
from flinkray.transformations.operator_factories import DropFactory, OperatorFactory
from flinkray.transformations.table_join_factories import (
    LookupJoinFactory,
    RegularJoinFactory,
    RetriedLookupJoinFactory,
    TableIntervalJoinFactory,
    TemporalJoinFactory,
)
from flinkray.transformations.transformation import PhysicalTransformation, Transformation
from flinkray.types.records import Millis

TABLES = {
    "t": "CREATE TABLE t (k INT, n INT, x TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR x AS x)",
    "u": "CREATE TABLE u (k INT, m INT, y TIMESTAMP(3), q AS PROCTIME(), WATERMARK FOR y AS y)",
    "v": "CREATE TABLE v (k INT, r INT, z TIMESTAMP(3), WATERMARK FOR z AS z, PRIMARY KEY (k) NOT ENFORCED)",
}


class Asked(LookupTable):
    def reader(self, keys: Sequence[str], columns: Sequence[str]) -> LookupReader:
        raise NotImplementedError


class _Lowering(PlanLowering):
    """Who assigns watermarks does not matter here."""

    def lowered(self, plan: Plan, before: bool) -> Transformation:
        return self.of(plan.input, before) if isinstance(plan, WatermarkAssigner) else super().lowered(plan, before)


def factory_of(sql: str, hint: str = "") -> OperatorFactory:
    catalog = Catalog()
    for each in TABLES.values():
        execute_ddl(catalog, each)
    streams = {
        (DEFAULT_CATALOG, DEFAULT_DATABASE, name): PhysicalTransformation(name=name, factory=DropFactory(("x",)))
        for name in TABLES
    }
    lookups = {(DEFAULT_CATALOG, DEFAULT_DATABASE, "u"): Asked()}
    lowering = _Lowering(streams, TableOptions(state_ttl_ms=Millis(5)), lookups)
    (join,) = lowering.of(optimized(bind_query(catalog, f"SELECT {hint} n FROM t {sql}"))).inputs
    assert isinstance(join, PhysicalTransformation)
    assert join.factory is not None
    return join.factory


def test_a_join_without_bounds_of_time_is_a_regular_one() -> None:
    made = factory_of("LEFT JOIN u ON t.k = u.k AND x > y")
    assert isinstance(made, RegularJoinFactory)
    assert (made.kind, made.keys, made.input_ttls_ms) == ("LEFT", ((0, 0),), (5, 5))
    assert made.condition is not None


@pytest.mark.parametrize(
    ("condition", "has_times"),
    [("x BETWEEN y AND y + INTERVAL '1' SECOND", True), ("p BETWEEN q AND q + INTERVAL '1' SECOND", False)],
)
def test_a_join_within_an_interval_forgets_what_is_over(condition: str, has_times: bool) -> None:
    made = factory_of(f"JOIN u ON t.k = u.k AND {condition} AND n < m")
    assert isinstance(made, TableIntervalJoinFactory)
    assert (made.lower_ms, made.upper_ms, made.gives.is_insert_only) == (-1000, 0, True)
    assert (made.times is not None) == has_times
    assert made.condition is not None


def test_a_join_as_of_an_event_time_keeps_versions() -> None:
    made = factory_of("JOIN v FOR SYSTEM_TIME AS OF t.x ON t.k = v.k")
    assert isinstance(made, TemporalJoinFactory)
    types = [rows.types[time] for rows, time in zip(made.input_rows, made.times, strict=True)]
    assert [str(each) for each in types] == ["TIMESTAMP(3) *ROWTIME*"] * 2


def test_a_join_as_of_a_processing_time_asks_the_table() -> None:
    made = factory_of("LEFT JOIN u FOR SYSTEM_TIME AS OF t.p ON t.k = u.k AND u.m > 3")
    assert isinstance(made, LookupJoinFactory)
    assert made.table_rows.names[made.keys[0][1]] == "k"
    assert made.condition is not None


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("JOIN u FOR SYSTEM_TIME AS OF t.x ON t.k = u.k", "a versioned table has a watermark, and a primary key"),
        ("JOIN v FOR SYSTEM_TIME AS OF t.x ON t.n = v.r", "a versioned table has a watermark, and a primary key"),
        ("JOIN v FOR SYSTEM_TIME AS OF t.p ON t.k = v.k", "only a table can be joined that can be asked"),
        ("LEFT JOIN u ON t.k = u.k AND p BETWEEN q AND q + INTERVAL '1' SECOND", ""),
    ],
)
def test_what_cannot_be_joined_says_why(sql: str, reason: str) -> None:
    with pytest.raises(Unexecutable) as caught:
        factory_of(sql)
    assert reason in caught.value.reason


LOOKED_UP = "JOIN u FOR SYSTEM_TIME AS OF t.p ON t.k = u.k"
RETRY = "'retry-predicate'='lookup_miss', 'retry-strategy'='fixed_delay', 'fixed-delay'='10s', 'max-attempts'='3'"


def test_a_hint_says_how_a_table_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    made = factory_of(LOOKED_UP, f"/*+ LOOKUP('table'='u', {RETRY}) */")
    assert isinstance(made, RetriedLookupJoinFactory)
    assert (made.retry_delay_ms, made.retries, made.kind, made.yields_to_mailbox) == (10_000, 3, "INNER", True)
    aliased = factory_of("JOIN u FOR SYSTEM_TIME AS OF t.p AS w ON t.k = w.k", f"/*+ LOOKUP('table'='w', {RETRY}) */")
    assert isinstance(aliased, RetriedLookupJoinFactory)
    assert caplog.messages == []
    ways = "'async'='true', 'output-mode'='allow_unordered', 'capacity'='5', 'timeout'='1 min'"
    assert type(factory_of(LOOKED_UP, f"/*+ LOOKUP('table'='u', {ways}) */")) is LookupJoinFactory
    why = "a table is asked once for all keys of a batch, and rows stay in order"
    names = ("async", "output-mode", "capacity", "timeout")
    assert caplog.messages == [f"{name!r} of the hint LOOKUP has no effect: {why}" for name in names]


def test_wrong_hints_of_lookups_are_refused() -> None:
    cases = {
        "'async'='true'": "LOOKUP needs the name of the table that is asked",
        "u": "LOOKUP takes 'table' = 'customers' and other options, not 'u'",
        "'table'='u', 'retries'='3'": "LOOKUP has no option 'retries'",
        "'table'='u', 'max-attempt'='3'": "did you mean 'max-attempts'",
        "'table'='u', 'max-attempts'='3'": "LOOKUP needs 'retry-predicate', too",
        "'table'='u', 'async'='maybe'": "'async' of LOOKUP is 'maybe': expected true or false",
        "'table'='u', 'capacity'='0'": "'capacity' of LOOKUP is '0': expected more than 0",
        "'table'='u', 'output-mode'='any'": "expected ordered or allow_unordered",
        f"'table'='u', {RETRY.replace('10s', 'soon')}": "'fixed-delay' of LOOKUP is 'soon'",
        f"'table'='u', {RETRY.replace('fixed_delay', 'exponential')}": "expected fixed_delay",
        "'table'='x'": "LOOKUP names 'x', which is no table in FROM",
        "'table'='t'": "LOOKUP names 't', which is not joined FOR SYSTEM_TIME AS OF a processing time",
    }
    for options, message in cases.items():
        with pytest.raises(SqlValidationError) as caught:
            factory_of(LOOKED_UP, f"/*+ LOOKUP({options}) */")
        assert message in caught.value.message, options
