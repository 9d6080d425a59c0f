"""Compiled plans: what they hold, and what becomes of those that do not fit any more."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flinkray import InvalidProgramError, StreamExecutionEnvironment
from flinkray.errors import SqlUnsupportedError
from flinkray.tables.api.data_types import DataTypes
from flinkray.tables.api.schemas import TableDescriptor
from flinkray.tables.api.user_functions import udf, udtf
from flinkray.tables.compiled.contents import PlanContent, from_text, to_text
from flinkray.tables.compiled.references import PlanReference
from flinkray.tables.compiled.values import NODES
from flinkray.tables.environment.environment import TableEnvironment
from flinkray.tables.environment.statement_sets import CompiledPlan
from flinkray.transformations.transformation import PhysicalTransformation, upstream_of
from tests.support.flink_statements import flink_statements

ORDERS = (
    "CREATE TABLE orders (id BIGINT, item STRING, cents INT) WITH ('connector' = 'datagen', 'rows-per-second' = '7')"
)
TOTALS = "CREATE TABLE totals (item STRING, cents INT) WITH ('connector' = 'print')"
INSERT = "INSERT INTO totals SELECT item, SUM(cents) FROM orders WHERE cents > 1 GROUP BY item"


def environment(*statements: str, **options: str) -> TableEnvironment:
    found = StreamExecutionEnvironment.get_execution_environment({"execution.target": "local"}).tables
    for key, value in options.items():
        found.execute_sql(f"SET '{key}' = '{value}'")
    for statement in statements:
        found.execute_sql(statement)
    return found


def loaded(text: str, *statements: str, **options: str) -> CompiledPlan:
    return environment(*statements, **options).load_plan(PlanReference.from_json_string(text))


def changed(text: str, change: Callable[[Any], object]) -> str:
    read = json.loads(text)
    change(read)
    return json.dumps(read)


def uids(content: PlanContent) -> list[str]:
    return [uid for each in content.uids.values() for uid in each]


OF_ALL_NODES = (
    *("select_values", "select_distinct", "with_nested", "union", "join_of_aggregates", "join_temporal", "unnest"),
    *("window_tumble", "over_range", "top_n", "limit_of_order", "match_falls"),
)
"""Statements of tests/data/sql that have all kinds of nodes among them."""


def test_a_plan_that_is_read_again_is_the_same_and_makes_the_same_operators(tmp_path: Path) -> None:
    tables = environment()
    sink = TableDescriptor.for_connector("blackhole").build()
    statements, inserts = flink_statements(tmp_path), tables.create_statement_set()
    for sql in statements.values():
        if sql.startswith(("CREATE TABLE", "CREATE TEMPORARY VIEW")) and " AS SELECT " not in sql:
            tables.execute_sql(sql)
    for name in OF_ALL_NODES:
        inserts.add(tables.sql_query(statements[name]).insert_into(sink))
    pairs = udtf(lambda n: [n, n], input_types=[DataTypes.INT()], result_types=[DataTypes.INT()])
    tables.create_temporary_function("pairs", pairs)
    inserts.add(tables.sql_query("SELECT id, n FROM bids, LATERAL TABLE(pairs(amount)) AS t (n)").insert_into(sink))
    constants = "X'00ff', 1.50, 1e0, TRUE, DATE '2024-02-29', INTERVAL '1' DAY, CAST(NULL AS ROW<a INT NOT NULL>)"
    inserts.add(tables.sql_query(f"SELECT id, {constants}, PROCTIME() FROM bids").insert_into(sink))
    again = "'retry-predicate'='lookup_miss', 'retry-strategy'='fixed_delay', 'fixed-delay'='1 s', 'max-attempts'='2'"
    asked = "(SELECT id, PROCTIME() AS p FROM bids) AS b JOIN bids FOR SYSTEM_TIME AS OF b.p AS c ON b.id = c.id"
    inserts.add(tables.sql_query(f"SELECT /*+ LOOKUP('table'='c', {again}) */ c.id FROM {asked}").insert_into(sink))
    for changes in ("TO_CHANGELOG(TABLE bids)", "FROM_CHANGELOG(TABLE bids, DESCRIPTOR(item))"):
        inserts.add(tables.sql_query(f"SELECT id FROM {changes}").insert_into(sink))
    content = inserts.compile_plan()._content
    text = to_text(content)
    read = from_text(text, "the plan")
    assert read == content
    assert {node["node"] for node in json.loads(text)["nodes"]} == set(NODES)
    sinks, program = tables._lowered(read)
    assert program.uids == content.uids
    operators = {each for sink in sinks for each in upstream_of(sink) if isinstance(each, PhysicalTransformation)}
    assert sorted(str(each.uid) for each in operators) == sorted(uids(content))


def test_a_plan_has_no_secrets_and_gets_them_of_the_catalog() -> None:
    options = (
        "'connector'='jdbc', 'table-name'='t','url'='jdbc:postgresql://host/db', 'username'='u', 'password'='hush'"
    )
    create = f"CREATE TABLE t (item STRING PRIMARY KEY NOT ENFORCED, cents INT) WITH ({options})"
    tables = environment(ORDERS, create)
    text = tables.compile_plan_sql("INSERT INTO t SELECT item, SUM(cents) FROM orders GROUP BY item").as_json_string()
    assert "hush" not in text
    assert "jdbc:postgresql://host/db" in text
    with pytest.raises(InvalidProgramError, match=r"t'.*'password' are secret.*CREATE TABLE"):
        loaded(text).explain()
    content = loaded(text, create.replace("//host/", "//other/"))
    (table,) = [each for each in content._environment._present(content._content).tables if each.secrets]  # type: ignore[attr-defined]
    assert dict(table.table.options)["password"] == "hush"
    assert dict(table.table.options)["url"].endswith("//host/db")
    hint = "/*+ OPTIONS('password'='silence', 'sink.parallelism'='3') */"
    hinted = tables.compile_plan_sql(f"INSERT INTO t {hint} SELECT item, cents FROM orders").as_json_string()
    assert "silence" not in hinted
    assert '"sink.parallelism": "3"' in hinted
    with pytest.raises(InvalidProgramError, match=r"t': its statement gave it 'password' in a hint.*compile the plan"):
        loaded(hinted, create).explain()
    sink = TableDescriptor.for_connector("print").option("password", "hush").build()
    with pytest.raises(InvalidProgramError, match=r"'password' of a table that no catalog has: give it a name"):
        tables.from_path("orders").insert_into(sink).compile_plan()


def test_hints_of_the_table_that_rows_go_into_are_checked() -> None:
    tables = environment(ORDERS, TOTALS, **{"table.dynamic-table-options.enabled": "false"})
    for hint, message in [("OPTONS('a'='b')", "no hint 'OPTONS'"), ("OPTIONS('a'='b')", "dynamic-table-options")]:
        with pytest.raises(InvalidProgramError, match=message):
            tables.compile_plan_sql(INSERT.replace(" SELECT", f" /*+ {hint} */ SELECT", 1))


def test_what_a_plan_does_not_hold_comes_from_the_catalog_as_the_options_say() -> None:
    whole = environment(ORDERS, TOTALS).compile_plan_sql(INSERT).as_json_string()
    schema = (
        environment(ORDERS, TOTALS, **{"table.plan.compile.catalog-objects": "schema"})
        .compile_plan_sql(INSERT)
        .as_json_string()
    )
    temporary = (
        environment(ORDERS.replace("CREATE", "CREATE TEMPORARY"), TOTALS).compile_plan_sql(INSERT).as_json_string()
    )
    restore = "table.plan.restore.catalog-objects"
    for text, statements, options, wrong in [
        (whole, (), {}, None),
        (whole, (), {restore: "ALL_ENFORCED"}, None),
        (
            whole,
            (),
            {restore: "IDENTIFIER"},
            r"needs the table 'default_catalog.default_database.\w+', which no catalog",
        ),
        (whole, (ORDERS, TOTALS), {restore: "IDENTIFIER"}, None),
        (schema, (ORDERS, TOTALS), {}, None),
        (schema, (ORDERS, TOTALS), {restore: "ALL_ENFORCED"}, "does not hold its options"),
        (schema, (), {}, "needs the table"),
        (temporary, (), {}, "CREATE TEMPORARY TABLE"),
        (temporary, (ORDERS,), {restore: "ALL_ENFORCED"}, None),
    ]:
        plan = loaded(text, *statements, **options)
        if wrong is None:
            assert "Aggregate(keys=[item]" in plan.explain("CHANGELOG_MODE", "JSON_EXECUTION_PLAN")
        else:
            with pytest.raises(InvalidProgramError, match=wrong):
                plan.explain()
    now = loaded(whole, ORDERS.replace("'7'", "'8'"), TOTALS, **{restore: "IDENTIFIER"})
    options = [dict(each.table.options) for each in now._environment._present(now._content).tables]  # type: ignore[attr-defined]
    assert options[0]["rows-per-second"] == "8"
    with pytest.raises(Exception, match="must be ALL or SCHEMA; without the columns"):
        environment(**{"table.plan.compile.catalog-objects": "IDENTIFIER"})


def test_a_plan_that_does_not_fit_any_more_is_refused_with_a_sentence() -> None:
    def scale(value: Any) -> Any:
        return value

    double = udf(scale, input_types=[DataTypes.INT()], result_type=DataTypes.INT())
    tables = environment(ORDERS, TOTALS)
    tables.create_temporary_function("scaled", double)
    text = tables.compile_plan_sql(INSERT).as_json_string()
    calling = tables.compile_plan_sql("INSERT INTO totals SELECT item, scaled(cents) FROM orders").as_json_string()
    for wrong, read in [
        ("is no JSON", "{"),
        ("is no compiled plan", "[]"),
        ("is of version 2 of such plans.*reads version 1", changed(text, lambda plan: plan.update(version=2))),
        ("there is no node 'Teleport'", changed(text, lambda plan: plan["nodes"][0].update(node="Teleport"))),
        ("Scan has no 'speed' here", changed(text, lambda plan: plan["nodes"][0].update(speed=1))),
        ("nothing is known of its option 'speed'", changed(text, lambda plan: plan["options"].update(speed=1))),
        ("'inserts' is missing", changed(text, lambda plan: plan.pop("inserts"))),
        (
            r"has the columns ROW<`a` INT> .*in it",
            changed(text, lambda plan: plan["nodes"][0].update(output="ROW<`a` INT> NOT NULL")),
        ),
    ]:
        with pytest.raises(InvalidProgramError, match=wrong):
            loaded(read)
    for wrong, plan in [
        (r"had cents INT, and has cents BIGINT now", loaded(text, ORDERS.replace("INT)", "BIGINT)"))),
        (r"had cents INT, and has price INT now", loaded(text, ORDERS.replace("cents", "price"))),
        (
            r"has id BIGINT NOT NULL, PRIMARY KEY \(id\) now",
            loaded(text, ORDERS.replace("cents INT", "cents INT, PRIMARY KEY (id) NOT ENFORCED")),
        ),
        (
            r"has the order item, id, cents now",
            loaded(text, ORDERS.replace("id BIGINT, item STRING", "item STRING, id BIGINT")),
        ),
        ("is a view now", loaded(text, "CREATE VIEW orders AS SELECT 1 AS id")),
        (
            "compiled in streaming mode.*SET 'execution.runtime-mode'",
            loaded(text, **{"execution.runtime-mode": "batch"}),
        ),
        ("calls the function 'scaled', which is not registered", loaded(calling)),
    ]:
        with pytest.raises(InvalidProgramError, match=wrong):
            plan.explain()
    kafka = "'kafka', 'topic'='t', 'format'='json', 'properties.bootstrap.servers'='h:1', 'properties.group.id'='g'"
    messages = ORDERS.replace("'datagen', 'rows-per-second' = '7'", kafka)
    of_messages = environment(messages, TOTALS).compile_plan_sql(INSERT).as_json_string()
    restore = {"table.plan.restore.catalog-objects": "IDENTIFIER"}
    with pytest.raises(InvalidProgramError, match="its rows were I, and are I,UB,UA,D now"):
        loaded(of_messages, messages.replace("'json'", "'debezium-json'"), TOTALS, **restore).explain()
    other = environment()
    other.create_temporary_function("SCALED", udf(scale, input_types=[DataTypes.INT()], result_type=DataTypes.STRING()))
    reference = PlanReference.from_json_string(calling)
    with pytest.raises(InvalidProgramError, match=r"giving INT, and is a scalar function of \(INT\) giving STRING now"):
        other.load_plan(reference).explain()
    other.register_function("SCALED", double)
    assert "scaled(cents)" in other.load_plan(reference).explain()
    renamed = changed(
        text, lambda plan: next(each for each in plan["nodes"] if each["node"] == "Aggregate").update(operators=["x"])
    )
    with pytest.raises(InvalidProgramError, match=r"makes other operators.*of its Aggregate, node 3, 3_.* and not x"):
        loaded(renamed).execute()


def test_whatever_a_plan_has_in_some_place_is_read_or_refused_with_a_sentence() -> None:
    tables = environment(ORDERS, TOTALS)
    whole = json.loads(tables.compile_plan_sql(INSERT).as_json_string())

    def places(value: Any) -> Iterator[tuple[Any, Any]]:
        for key, below in list(value.items() if isinstance(value, dict) else enumerate(value)):
            yield value, key
            if isinstance(below, dict | list):
                yield from places(below)

    refused = 0
    for container, key in places(whole):
        former, container[key] = container[key], [-1]
        try:
            tables.load_plan(PlanReference.from_json_string(json.dumps(whole)))
        except InvalidProgramError:
            refused += 1
        container[key] = former
    assert refused > 100


def test_what_no_file_can_have_is_refused() -> None:
    tables = environment(ORDERS, TOTALS)
    rows = tables.from_elements(
        [("tea", 1)],
        DataTypes.ROW([DataTypes.FIELD("item", DataTypes.STRING()), DataTypes.FIELD("cents", DataTypes.INT())]),
    )
    with pytest.raises(InvalidProgramError, match="is a stream or rows of this process"):
        rows.insert_into("totals").compile_plan()
    same = udf(lambda value: value, input_types=[DataTypes.INT()], result_type=DataTypes.INT(), name="same")
    orders = tables.from_path("orders")
    with pytest.raises(
        InvalidProgramError, match=r"cannot call 'same' as it is: create_temporary_function\('same', same\)"
    ):
        orders.select(orders.item, same(orders.cents)).insert_into("totals").compile_plan()
    with pytest.raises(InvalidProgramError, match="compile_plan_sql takes an INSERT"):
        tables.compile_plan_sql("SELECT 1")
    with pytest.raises(SqlUnsupportedError, match="LISTAGG"):
        tables.compile_plan_sql(
            "INSERT INTO totals SELECT LISTAGG(item) WITHIN GROUP (ORDER BY cents), 1 FROM orders GROUP BY item"
        )
    with pytest.raises(InvalidProgramError, match="the statement set is empty"):
        tables.create_statement_set().compile_plan()


def test_files_are_written_over_only_where_that_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "plans" / "totals.json"
    tables = environment(ORDERS, TOTALS)
    compile_plan = f"COMPILE PLAN '{file}' {{}}FOR {INSERT}"
    assert list(tables.execute_sql(compile_plan.format("")).lines()) == ["OK"]
    written = file.read_text()
    with pytest.raises(InvalidProgramError, match=r"there is a file .* already.*table.plan.force-recompile"):
        tables.execute_sql(compile_plan.format(""))
    tables.execute_sql(f"COMPILE PLAN '{file}' IF NOT EXISTS FOR INSERT INTO totals SELECT item, cents FROM orders")
    plan = tables.load_plan(PlanReference.from_file(file))
    plan.write_to_file(file, ignore_if_exists=True)
    assert file.read_text() == written == plan.as_json_string()
    with pytest.raises(InvalidProgramError, match="already"):
        plan.write_to_file(file)
    tables.execute_sql("SET 'table.plan.force-recompile' = 'true'")
    tables.execute_sql(f"COMPILE PLAN '{file}' FOR STATEMENT SET BEGIN {INSERT}; {INSERT.replace('> 1', '> 2')}; END")
    assert json.loads(file.read_text())["inserts"] != json.loads(written)["inserts"]
    with pytest.raises(InvalidProgramError, match="cannot be read"):
        tables.execute_sql(f"EXECUTE PLAN '{tmp_path / 'none.json'}'")
    assert plan.get_flink_version() == json.loads(written)["flinkray"]


TIMED = """CREATE TABLE timed (a STRING, b STRING, n INT, m INT, at_time TIMESTAMP(3), WATERMARK FOR at_time AS at_time)
WITH ('connector' = 'datagen')"""
OTHERS = TIMED.replace("TABLE timed", "TABLE others")
WINDOWED = "FROM TABLE(TUMBLE(TABLE timed, DESCRIPTOR(at_time), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"
TOP = "SELECT a, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY n) AS r FROM timed) WHERE r <= 3"
JOIN = "SELECT t.n, o.m, t.b, o.b, t.at_time, o.at_time FROM timed AS t JOIN others AS o ON t.a = o.a AND t.n < o.n"
NEAR = """SELECT t.n FROM timed AS t JOIN others AS o
ON t.a = o.a AND t.at_time BETWEEN o.at_time AND o.at_time + INTERVAL '1' SECOND"""


@pytest.mark.parametrize(
    ("query", "changes"),
    [
        (
            "SELECT a, SUM(n) FROM timed GROUP BY a",
            [
                ("SUM(n)", "MAX(n)"),
                ("SUM(n)", "SUM(m)"),
                ("GROUP BY a", "GROUP BY a, b"),
                ("SUM(n)", "SUM(n), COUNT(m)"),
                ("SELECT a, SUM(n) FROM timed GROUP BY a", "SELECT b, SUM(n) FROM timed GROUP BY b"),
            ],
        ),
        (
            TOP,
            [("<= 3", "<= 4"), ("BY a", "BY b"), ("BY n)", "BY n DESC)"), ("BY n)", "BY m)"), ("ROW_NUMBER", "RANK")],
        ),
        (JOIN, [("t.a = o.a", "t.b = o.b"), ("t.n < o.n", "t.n > o.n"), ("JOIN", "LEFT JOIN")]),
        (NEAR, [("t.a = o.a", "t.b = o.b"), ("'1' SECOND", "'2' SECOND")]),
        (
            f"SELECT a, SUM(n) {WINDOWED}, a",
            [("SUM(n)", "SUM(m)"), ("SUM(n)", "MAX(n)"), ("a, SUM", "b, SUM"), ("SUM(n)", "SUM(n + 1)")],
        ),
        (
            "SELECT SUM(n) OVER (PARTITION BY a ORDER BY at_time ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) FROM timed",
            [
                ("BY a ", "BY b "),
                ("3 PREC", "4 PREC"),
                ("SUM(n)", "SUM(m)"),
                ("ROWS BETWEEN 3", "ROWS BETWEEN UNBOUNDED"),
            ],
        ),
        ("SELECT a, n FROM timed INTERSECT SELECT a, n FROM others", [("INTERSECT", "EXCEPT")]),
        ("SELECT a FROM timed", [("timed", "others")]),
    ],
)
def test_state_is_told_from_that_of_a_statement_that_computes_something_else(
    query: str, changes: list[tuple[str, str]]
) -> None:
    tables = environment(TIMED, OTHERS)
    sink = TableDescriptor.for_connector("blackhole").build()

    def computed(sql: str) -> set[str]:
        sinks = tables._sinks([tables.sql_query(sql).insert_into(sink)._insert_planned])
        return {each.computes for each in upstream_of(sinks[0]) if each.computes}

    own = computed(query)
    assert computed(query) == own
    for before, after in changes:
        part = "GROUP BY window_start, window_end, a"
        other = query.replace(before, after).replace(part, part.replace(", a", ", b") if after == "b, SUM" else part)
        assert other != query
        assert computed(other) != own, other
