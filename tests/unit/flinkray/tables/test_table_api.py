"""Queries that are put together in Python: each step means what its SQL means."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Any

import pytest

import flinkray
from flinkray import InvalidProgramError, StreamExecutionEnvironment
from flinkray.errors import SqlError, TypeMismatchError
from flinkray.tables.api import expressions as functions
from flinkray.tables.api.data_types import DataTypes, logical_type
from flinkray.tables.api.expressions import CURRENT_ROW, UNBOUNDED_RANGE, col, lit, row_interval
from flinkray.tables.api.schemas import FormatDescriptor, Schema, TableDescriptor
from flinkray.tables.api.table import Table
from flinkray.tables.api.user_functions import udf
from flinkray.tables.api.windows import Over, Session, Slide, Tumble
from flinkray.tables.api.words import JsonOnNull, JsonQueryWrapper
from flinkray.tables.environment.environment import TableEnvironment
from flinkray.tables.types import logical

CLICKS = """CREATE TABLE clicks (id BIGINT, name STRING, `at` TIMESTAMP(3), tags ARRAY<STRING>, r ROW<a INT, b STRING>,
WATERMARK FOR `at` AS `at`) WITH ('connector'='datagen')"""


@pytest.fixture(scope="module")
def tables() -> TableEnvironment:
    found = StreamExecutionEnvironment.get_execution_environment({"execution.target": "local"}).tables
    found.execute_sql(CLICKS)
    found.execute_sql("CREATE TABLE users (uid BIGINT, city STRING) WITH ('connector'='datagen')")
    return found


@pytest.mark.parametrize(
    ("make", "sql"),
    [
        (lambda: (col("id") + 1) * 2 - lit(3) % col("id"), "(id + 1) * 2 - 3 % id"),
        (lambda: 1 - col("id") / 2.5, "1 - id / 2.5e0"),
        (lambda: -col("id"), "-id"),
        (
            lambda: (col("id") > 1) & ~(col("name") == "x") | col("id").is_null,
            "id > 1 AND NOT name = 'x' OR id IS NULL",
        ),
        (lambda: functions.and_(col("id") > 1, True, col("id") < 9), "id > 1 AND TRUE AND id < 9"),
        (lambda: col("id").between(1, 2), "id BETWEEN 1 AND 2"),
        (lambda: col("name").in_("a", "b"), "name IN ('a', 'b')"),
        (lambda: col("name").like("a%"), "name LIKE 'a%'"),
        (lambda: col("id").cast(DataTypes.STRING()).char_length(), "CHAR_LENGTH(CAST(id AS STRING))"),
        (lambda: col("id").try_cast("INT"), "TRY_CAST(id AS INT)"),
        (lambda: (col("id") > 1).then("a", None), "CASE WHEN id > 1 THEN 'a' ELSE NULL END"),
        (lambda: col("name").upper_case, "UPPER(name)"),
        (lambda: col("name").upper_case.substring(1, 2).lower(), "LOWER(SUBSTRING(UPPER(name), 1, 2))"),
        (lambda: col("name").regexp_replace("a", "b"), "REGEXP_REPLACE(name, 'a', 'b')"),
        (lambda: col("name").trim(), "TRIM(BOTH ' ' FROM name)"),
        (lambda: col("at").extract("HOUR"), "EXTRACT(HOUR FROM `at`)"),
        (lambda: col("at").floor("DAY"), "FLOOR(`at` TO DAY)"),
        (lambda: col("at") + lit(10).minutes, "`at` + INTERVAL '10' MINUTE"),
        (lambda: col("tags").at(1), "tags[1]"),
        (lambda: col("tags")[1], "tags[1]"),
        (lambda: col("tags").cardinality, "CARDINALITY(tags)"),
        (lambda: col("r").get("b"), "clicks.r.b"),
        (lambda: col("name").json_value("$.a", "INT"), "JSON_VALUE(name, '$.a' RETURNING INT)"),
        (
            lambda: col("name").json_value(
                "$.a", "INT", on_empty="DEFAULT", default_on_empty=1, on_error=JsonOnNull.NULL
            ),
            "JSON_VALUE(name, '$.a' RETURNING INT DEFAULT 1 ON EMPTY NULL ON ERROR)",
        ),
        (lambda: col("name").json_value("$", "INT", "NULL"), "JSON_VALUE(name, '$' RETURNING INT NULL ON EMPTY)"),
        (
            lambda: col("name").json_query("$.a", JsonQueryWrapper.CONDITIONAL_ARRAY, "EMPTY_ARRAY"),
            "JSON_QUERY(name, '$.a' WITH CONDITIONAL ARRAY WRAPPER EMPTY ARRAY ON EMPTY)",
        ),
        (lambda: col("name").json_exists("$.a", "TRUE"), "JSON_EXISTS(name, '$.a' TRUE ON ERROR)"),
        (lambda: col("name").substring(begin_index=2, length=1), "SUBSTRING(name, 2, 1)"),
        (lambda: col("r").get(1), "clicks.r.b"),
        (lambda: lit(datetime.datetime(2024, 1, 2, 3, 4, 5)), "TIMESTAMP '2024-01-02 03:04:05'"),
        (lambda: lit(datetime.date(2024, 1, 2)), "DATE '2024-01-02'"),
        (lambda: lit(1, DataTypes.TINYINT()), "CAST(1 AS TINYINT)"),
        (lambda: functions.array(1, 2), "ARRAY[1, 2]"),
        (lambda: functions.map_("a", 1), "MAP['a', 1]"),
        (lambda: functions.row(1, "a"), "ROW(1, 'a')"),
        (lambda: functions.coalesce(col("name"), "x"), "COALESCE(name, 'x')"),
        (lambda: functions.concat_ws("-", col("name"), "x"), "CONCAT_WS('-', name, 'x')"),
        (lambda: functions.timestamp_diff("DAY", col("at"), col("at")), "TIMESTAMPDIFF(DAY, `at`, `at`)"),
        (lambda: functions.null_of("INT"), "CAST(NULL AS INT)"),
        (lambda: functions.call("POWER", col("id"), 2), "POWER(id, 2)"),
        (lambda: col("at") + lit(1500).millis, "`at` + INTERVAL '1.500' SECOND"),
        (lambda: functions.json_object("ABSENT", "a", col("id")), "JSON_OBJECT(KEY 'a' VALUE id ABSENT ON NULL)"),
        (lambda: functions.json_array("NULL", 1, col("name")), "JSON_ARRAY(1, name NULL ON NULL)"),
        (
            lambda: functions.temporal_overlaps(col("at"), lit(1).hours, col("at"), lit(2).hours),
            "(`at`, INTERVAL '1' HOUR) OVERLAPS (`at`, INTERVAL '2' HOUR)",
        ),
        (lambda: functions.call_sql("id + 1"), "id + 1"),
    ],
)
def test_an_expression_is_bound_as_its_sql_is(tables: TableEnvironment, make: Callable[[], Any], sql: str) -> None:
    made = tables.from_path("clicks").select(make().alias("x"))
    assert same(made, tables.sql_query(f"SELECT {sql} AS x FROM clicks"))


def same(made: Table, wanted: Table) -> bool:
    assert made.optimized_plan() == wanted.optimized_plan()
    return made.row_type == wanted.row_type


FIVE, GAP = "`at`, INTERVAL '5' MINUTE", "`at`, INTERVAL '3' SECOND"
W = "OVER (PARTITION BY name ORDER BY `at`"


@pytest.mark.parametrize(
    ("steps", "sql"),
    [
        (
            lambda c, _: c.select("id + 1 AS x", col("name")).where("x > 1"),
            "SELECT id + 1 AS x, name FROM clicks WHERE id + 1 > 1",
        ),
        (lambda c, _: c.select(col("id"), col("name")).distinct(), "SELECT DISTINCT id, name FROM clicks"),
        (
            lambda c, _: c.drop_columns(col("tags"), "r", "at").add_columns((col("id") * 2).alias("d")),
            "SELECT id, name, id * 2 AS d FROM clicks",
        ),
        (
            lambda c, _: c.select("id", "name").add_or_replace_columns(col("id").abs.alias("id"), lit(1).alias("one")),
            "SELECT ABS(id) AS id, name, 1 AS `one` FROM clicks",
        ),
        (
            lambda c, _: c.select("id", "name").rename_columns(col("id").alias("key")),
            "SELECT id AS key, name FROM clicks",
        ),
        (lambda c, _: c.select("id", "name").alias("a"), "SELECT id AS a, name FROM clicks"),
        (
            lambda c, _: c.select("id").order_by(col("id").desc).limit(3, 1),
            "SELECT id FROM clicks ORDER BY id DESC LIMIT 3 OFFSET 1",
        ),
        (
            lambda c, _: c.group_by(col("name")).select(
                col("name"), col("id").sum.alias("s"), col("id").count.distinct.alias("n")
            ),
            "SELECT name, SUM(id) AS s, COUNT(DISTINCT id) AS n FROM clicks GROUP BY name",
        ),
        (
            lambda c, _: c.group_by("name").aggregate(col("id").max.alias("m")).select("m"),
            "SELECT m FROM (SELECT name, MAX(id) AS m FROM clicks GROUP BY name)",
        ),
        (lambda c, _: c.select(col("id").avg.alias("a")), "SELECT AVG(id) AS a FROM clicks"),
        (
            lambda c, u: c.select("id").join(u, col("id") == col("uid")),
            "SELECT id, uid, city FROM (SELECT id FROM clicks) JOIN users ON id = uid",
        ),
        (
            lambda c, u: c.select("id").left_outer_join(u, col("id") == col("uid")).select("city"),
            "SELECT city FROM (SELECT id FROM clicks) LEFT JOIN users ON id = uid",
        ),
        (
            lambda c, u: c.select("id").full_outer_join(u, col("id") == col("uid")),
            "SELECT id, uid, city FROM (SELECT id FROM clicks) FULL JOIN users ON id = uid",
        ),
        (lambda c, u: c.select("id", "name").union_all(u), "SELECT id, name FROM clicks UNION ALL SELECT * FROM users"),
        (lambda c, u: c.select("id", "name").minus(u), "SELECT id, name FROM clicks EXCEPT SELECT * FROM users"),
        (
            lambda c, u: c.select("id", "name").intersect_all(u),
            "SELECT id, name FROM clicks INTERSECT ALL SELECT * FROM users",
        ),
        (
            lambda c, _: (
                c.window(Tumble.over(lit(5).minutes).on(col("at")).alias("w"))
                .group_by(col("w"), col("name"))
                .select(col("name"), col("w").start.alias("s"), col("w").end.alias("e"), lit(1).count.alias("n"))
            ),
            f"SELECT name, TUMBLE_START({FIVE}) AS s, TUMBLE_END({FIVE}) AS e, COUNT(1) AS n "
            f"FROM clicks GROUP BY name, TUMBLE({FIVE})",
        ),
        (
            lambda c, _: (
                c.window(Slide.over(lit(2).hours).every(lit(1).hours).on("at").alias("w"))
                .group_by(col("w"))
                .select(col("id").sum.alias("s"))
            ),
            "SELECT SUM(id) AS s FROM clicks GROUP BY HOP(`at`, INTERVAL '1' HOUR, INTERVAL '2' HOUR)",
        ),
        (
            lambda c, _: (
                c.window(Session.with_gap(lit(3).seconds).on("at").alias("w"))
                .group_by(col("w"))
                .select(col("w").rowtime.alias("t"))
            ),
            f"SELECT SESSION_ROWTIME({GAP}) AS t FROM clicks GROUP BY SESSION({GAP})",
        ),
        (
            lambda c, _: c.over_window(
                Over.partition_by(col("name"))
                .order_by(col("at"))
                .preceding(row_interval(2))
                .following(CURRENT_ROW)
                .alias("w")
            ).select(col("id").sum.over(col("w")).alias("s")),
            f"SELECT SUM(id) {W} ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM clicks",
        ),
        (
            lambda c, _: c.over_window(
                Over.partition_by(col("name")).order_by(col("at")).preceding(UNBOUNDED_RANGE).alias("w")
            ).select(col("id").max.over("w").alias("m")),
            f"SELECT MAX(id) {W} RANGE UNBOUNDED PRECEDING) AS m FROM clicks",
        ),
    ],
)
def test_a_table_is_the_plan_of_its_sql(
    tables: TableEnvironment, steps: Callable[[Table, Table], Table], sql: str
) -> None:
    made = steps(tables.from_path("clicks"), tables.from_path("users"))
    assert same(made, tables.sql_query(sql))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda c: c.select(col("nam")), "no column 'nam'; did you mean 'name'?"),
        (lambda c: c.where(col("id")), "WHERE takes a condition, and this is BIGINT"),
        (lambda c: c.where("id >"), "expected an expression"),
        (lambda c: c.select(col("name") - 1), "argument 1 has to be a number"),
        (lambda c: c.add_columns(lit(1).alias("id")), "there is a column 'id'"),
        (lambda c: c.drop_columns("idd"), "drop_columns: no column 'idd'; did you mean 'id'?"),
        (lambda c: c.join(c, col("id") == 1), "both tables have a column 'at'"),
        (lambda c: c.select("name, COUNT(id) AS n"), "is 2 expressions; give each as an argument of its own"),
        (lambda c: c.group_by("name, id"), "'name, id' is 2 expressions"),
        (lambda c: c.group_by(col("id").alias("k"), col("name").alias("k")), "two keys are called 'k'"),
        (lambda c: c.select(lit(object())), "no constant of SQL"),
        (lambda c: c.select(col("id").desc), "asc and desc are for order_by"),
        (lambda c: c.alias(*"abcdefg"), "7 names for 5 columns"),
        (lambda c: c.where(col("id") > 1 and col("id") < 3), "combine conditions with &, | and ~"),
        (lambda c: c.window(Tumble.over(row_interval(3)).on("at").alias("w")), "an interval of time"),
        (lambda c: c.select(flinkray.col("id")), "of streams"),
    ],
)
def test_what_is_wrong_fails_where_the_step_is_made(
    tables: TableEnvironment, wrong: Callable[[Table], Any], words: str
) -> None:
    with pytest.raises(InvalidProgramError, match=re.escape(words)):
        wrong(tables.from_path("clicks"))


def test_an_error_shows_the_query_that_was_made(tables: TableEnvironment) -> None:
    with pytest.raises(SqlError) as raised:
        tables.from_path("users").select(col("uid"), col("cit"))
    assert str(raised.value).splitlines()[1:] == ["  SELECT `uid`, `cit`", "                ^^^^^"]


def test_a_method_that_is_none_offers_the_nearest() -> None:
    with pytest.raises(AttributeError, match="no method 'uper_case'; did you mean 'upper_case'"):
        col("a").uper_case  # noqa: B018


def test_a_descriptor_makes_the_table_of_its_statement(tables: TableEnvironment) -> None:
    schema = (
        Schema.new_builder()
        .column("id", DataTypes.BIGINT(nullable=False))
        .column_by_expression("twice", col("id") * 2)
        .column_by_metadata("at", DataTypes.TIMESTAMP_LTZ(3), "timestamp", is_virtual=True)
        .watermark("at", "`at` - INTERVAL '1' SECOND")
        .primary_key("id")
        .build()
    )
    descriptor = TableDescriptor.for_connector("kafka").schema(schema).option("topic", "t").format("json").build()
    lines = [
        "(",
        "  `id` BIGINT NOT NULL,",
        "  `twice` AS `id` * 2,",
        "  `at` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,",
        "  WATERMARK FOR `at` AS `at` - INTERVAL '1' SECOND,",
        "  PRIMARY KEY (`id`) NOT ENFORCED",
        ")",
    ]
    options = ["  'connector' = 'kafka',", "  'topic' = 't',", "  'format' = 'json'"]
    assert (str(schema), str(descriptor)) == ("\n".join(lines), "\n".join([*lines, "WITH (", *options, ")"]))
    whole = TableDescriptor.for_connector("x").comment("it's").partitioned_by("a", "b").build()
    assert str(whole) == "COMMENT 'it''s'\nPARTITIONED BY (`a`, `b`)\nWITH (\n  'connector' = 'x'\n)"
    assert str(FormatDescriptor.for_format("csv").option("a", 1).option("b", True).build()) == "csv[{a=1, b=true}]"
    tables.create_table("made", descriptor)
    tables.execute_sql(
        "CREATE TABLE said (id BIGINT NOT NULL, twice AS id * 2,"
        "`at` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,"
        "WATERMARK FOR `at` AS `at` - INTERVAL '1' SECOND, PRIMARY KEY (id) NOT ENFORCED)"
        "WITH ('connector'='kafka', 'topic'='t', 'format'='json')"
    )
    made, said = (tables.execute_sql(f"SHOW CREATE TABLE {each}").collect().next()[0] for each in ("made", "said"))
    assert made.replace("made", "said") == said


def test_a_function_of_the_users_has_its_types_from_what_declares_them(tables: TableEnvironment) -> None:
    def length(text: str) -> int:
        return len(text)

    assert (
        tables.from_path("clicks").select(udf(length)(col("name")).alias("n")).row_type
        == logical.ROW(("n", logical.BIGINT)).not_null()
    )
    typed = udf(length, input_types=["STRING"], result_type="INT")
    keyed = tables.from_path("clicks").group_by(typed(col("name")).alias("size"), col("id"))
    assert keyed.select(col("size") + 1, col("id"), col("name").count.alias("n")).columns[1:] == ["id", "n"]
    assert keyed.aggregate(col("id").max.alias("m")).select(col("size"), col("m")).columns == ["size", "m"]
    windowed = tables.from_path("clicks").window(Tumble.over(lit(10).seconds).on(col("at")).alias("w"))
    found = windowed.group_by(col("w"), col("name").alias("who")).select(col("who"), col("w").start.alias("s"))
    assert found.columns == ["who", "s"]
    same = tables.from_path("clicks").group_by(col("id").alias("id")).select(col("id"), col("name").count.alias("n"))
    assert same.columns == ["id", "n"]
    assert tables.from_path("clicks").order_by(typed(col("name")).desc, col("id")).columns[0] == "id"
    with pytest.raises(InvalidProgramError, match="takes 1 arguments"):
        tables.from_path("clicks").select(typed(col("id"), col("id")))
    with pytest.raises(InvalidProgramError, match="result_type="):
        udf(lambda x: x)
    assert logical_type("DECIMAL(10, 2)") == logical.DECIMAL(10, 2)


def test_a_time_attribute_is_a_plain_time_in_a_table_that_is_made_for_the_rows(tables: TableEnvironment) -> None:
    pipeline = tables.from_path("clicks").insert_into(TableDescriptor.for_connector("blackhole").build())
    rows = pipeline._insert_planned.plan.table.row_type
    assert [str(each) for each in rows.types][2] == "TIMESTAMP(3)"


def test_a_star_is_all_columns_of_a_select(tables: TableEnvironment) -> None:
    users = tables.from_path("users")
    assert users.select(col("*")).columns == ["uid", "city"]
    assert users.select((col("uid") + 1).alias("next"), col("*")).columns == ["next", "uid", "city"]
    with pytest.raises(SqlError, match="neither in GROUP BY"):
        users.group_by(col("uid")).select(col("*"))


def test_a_time_of_more_digits_than_its_column_is_refused_with_the_type_that_holds_it(tables: TableEnvironment) -> None:
    seconds = DataTypes.ROW([DataTypes.FIELD("t", DataTypes.TIME())])
    with pytest.raises(
        TypeMismatchError, match=r"does not fit time32\[s\], as it has more digits of a second; set schema=.*TIME\(6\)"
    ):
        tables.from_elements([(datetime.time(1, 2, 3, 4),)], seconds)
