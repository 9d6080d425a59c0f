"""Statements that change catalogs and settings, and show them; expected texts are what Flink 2.3 prints."""

from __future__ import annotations

import io
import re

import pytest

from flinkray import ConfigurationError, InvalidProgramError, StreamExecutionEnvironment
from flinkray.errors import SqlError, SqlParserError, SqlValidationError
from flinkray.tables.environment.answers import ResultKind
from flinkray.tables.environment.environment import TableEnvironment

ORDERS = """CREATE TABLE orders (
  id BIGINT NOT NULL COMMENT 'the id', item STRING, price DECIMAL(10,2), ts TIMESTAMP(3),
  cents AS CAST(price*100 AS BIGINT), part INT METADATA FROM 'partition' VIRTUAL,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, PRIMARY KEY (id) NOT ENFORCED)
COMMENT 'all orders' PARTITIONED BY (item) WITH ('connector'='kafka','topic'='t')"""


@pytest.fixture
def tables() -> TableEnvironment:
    found = StreamExecutionEnvironment.get_execution_environment({"execution.target": "local"}).tables
    done(found, ORDERS, "CREATE TABLE g (id INT, name STRING, p AS PROCTIME()) WITH ('connector'='datagen')")
    return found


def done(tables: TableEnvironment, *statements: str) -> None:
    for statement in statements:
        result = tables.execute_sql(statement)
        assert list(result.lines()) == ["OK"]
        assert result.get_result_kind() is ResultKind.SUCCESS


def shown(tables: TableEnvironment, statement: str) -> str:
    text = io.StringIO()
    tables.execute_sql(statement).print(text)
    return text.getvalue()


def names(tables: TableEnvironment, statement: str) -> list[str]:
    return [row[0] for row in tables.execute_sql(statement).collect()]


def test_tables_are_listed_and_described_as_flink_does(tables: TableEnvironment) -> None:
    done(tables, "CREATE VIEW v AS SELECT id, name AS n FROM g WHERE id > 1")
    assert shown(tables, "SHOW TABLES") == (
        "+------------+\n| table name |\n+------------+\n|          g |\n|     orders |\n|          v |\n"
        "+------------+\n3 rows in set\n"
    )
    assert shown(tables, "SHOW TABLES LIKE 'x%'") == "Empty set\n"
    done(tables, "CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at`)")
    assert (
        shown(tables, "DESCRIBE t")
        == """\
+------+------------------------+-------+---------+--------+-----------+
| name |                   type |  null |     key | extras | watermark |
+------+------------------------+-------+---------+--------+-----------+
|   id |                    INT | FALSE | PRI(id) |        |           |
|   at | TIMESTAMP(3) *ROWTIME* |  TRUE |         |        |      `at` |
+------+------------------------+-------+---------+--------+-----------+
2 rows in set
"""
    )
    orders = [list(row) for row in tables.execute_sql("DESCRIBE orders").collect()]
    assert orders[0] == ["id", "BIGINT", False, "PRI(id)", None, None, "the id"]
    assert orders[3][5:] == ["`ts` - INTERVAL '5' SECOND", None]
    assert orders[4][4] == "AS CAST(`price` * 100 AS BIGINT)"
    assert orders[5][4] == "METADATA FROM 'partition' VIRTUAL"
    described = [list(row) for row in tables.execute_sql("DESC g").collect()]
    assert described[2] == ["p", "TIMESTAMP_LTZ(3) *PROCTIME*", False, None, "AS PROCTIME()", None]


def test_show_create_gives_a_statement_that_makes_an_equal_table(tables: TableEnvironment) -> None:
    (created,) = names(tables, "SHOW CREATE TABLE orders")
    before = tables.catalog.get(("orders",))
    done(tables, "DROP TABLE orders", created)
    assert tables.catalog.get(("orders",)) == before
    done(tables, "CREATE TEMPORARY VIEW w (a) COMMENT 'hi' AS SELECT id FROM g")
    (created,) = names(tables, "SHOW CREATE VIEW w")
    assert created.startswith(
        "CREATE TEMPORARY VIEW `default_catalog`.`default_database`.`w` (\n  `a`\n)\nCOMMENT 'hi'"
    )


@pytest.mark.parametrize(
    ("change", "columns"),
    [
        ("ADD (x INT FIRST, y INT AFTER id)", "x id y item price ts cents part"),
        ("MODIFY item INT AFTER price", "id price item ts cents part"),
        ("RENAME item TO thing", "id thing price ts cents part"),
        ("DROP (item)", "id price ts cents part"),
        ("DROP WATERMARK", "id item price ts cents part"),
        ("SET ('topic' = 'u', 'more' = '1')", "id item price ts cents part"),
    ],
)
def test_a_table_is_altered_as_if_it_had_been_created_so(tables: TableEnvironment, change: str, columns: str) -> None:
    done(tables, "CREATE TABLE o WITH ('connector'='print') LIKE orders (EXCLUDING PARTITIONS)")
    done(tables, f"ALTER TABLE o {change}")
    assert names(tables, "SHOW COLUMNS FROM o") == columns.split()
    assert ("WATERMARK" in names(tables, "SHOW CREATE TABLE o")[0]) == (change != "DROP WATERMARK")


def test_types_are_shown_in_the_words_of_the_standard_where_a_statement_creates_them(tables: TableEnvironment) -> None:
    columns = {
        "a": (
            "ROW<`STRING` STRING NOT NULL, `y` ARRAY<BYTES>>",
            "ROW<`STRING` VARCHAR(2147483647) NOT NULL, `y` ARRAY<VARBINARY(2147483647)>>",
        ),
        "b": ("MAP<VARCHAR(3), TIMESTAMP_LTZ(3)>", "MAP<VARCHAR(3), TIMESTAMP(3) WITH LOCAL TIME ZONE>"),
        "c": ("TIMESTAMP_LTZ(3) NOT NULL", "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL"),
    }
    lines = ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items())
    done(tables, f"CREATE TABLE t ({lines}, WATERMARK FOR c AS c) WITH ('connector'='print')")
    before = tables.catalog.get(("t",))
    (created,) = names(tables, "SHOW CREATE TABLE t")
    assert created.split("\n")[1:4] == [f"  `{name}` {kind}," for name, (_, kind) in columns.items()]
    done(tables, "DROP TABLE t", created)
    assert tables.catalog.get(("t",)) == before


def test_in_batch_mode_no_column_is_described_as_a_rowtime_attribute(tables: TableEnvironment) -> None:
    done(tables, "SET 'execution.runtime-mode' = 'batch'", "CREATE VIEW v AS SELECT ts, PROCTIME() AS p FROM orders")
    assert list(tables.execute_sql("DESCRIBE orders").collect())[3][1] == "TIMESTAMP(3)"
    assert [row[1] for row in tables.execute_sql("SHOW COLUMNS FROM orders LIKE 'ts'").collect()] == ["TIMESTAMP(3)"]
    types = [row[1] for row in tables.execute_sql("DESCRIBE v").collect()]
    assert types == ["TIMESTAMP(3)", "TIMESTAMP_LTZ(3) *PROCTIME*"]


def test_with_recursive_is_there_for_queries_that_do_not_read_themselves(tables: TableEnvironment) -> None:
    done(tables, "CREATE VIEW v AS WITH RECURSIVE r (q) AS (SELECT id FROM g), s AS (SELECT q FROM r) SELECT * FROM s")
    assert names(tables, "SHOW COLUMNS FROM v") == ["q"]
    with pytest.raises(SqlValidationError, match="'r' reads itself"):
        tables.execute_sql("WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT * FROM r")


def test_partitions_are_added_dropped_and_shown(tables: TableEnvironment) -> None:
    done(
        tables,
        "CREATE TABLE t (a INT, b STRING, c INT) PARTITIONED BY (b, c) WITH ('connector'='print')",
        "ALTER TABLE t ADD PARTITION (c = 1, b = 'x')",
        "ALTER TABLE t ADD IF NOT EXISTS PARTITION (b = 'x', c = 1) PARTITION (b = 'y', c = 2)",
        "ALTER TABLE t RENAME TO u",
    )
    assert names(tables, "SHOW PARTITIONS u") == ["b=x/c=1", "b=y/c=2"]
    assert names(tables, "SHOW PARTITIONS u PARTITION (c = 2)") == ["b=y/c=2"]
    for change, words in {
        "ADD PARTITION (b = 'x', c = 1)": "there is a partition 'b=x/c=1'",
        "ADD PARTITION (b = 'x')": "a partition has a value of each of b, c",
        "DROP PARTITION (b = 'z', c = 1)": "there is no partition 'b=z/c=1'",
        "ADD PARTITION (a = 1)": "'u' has no partitions by 'a'; it has them by: b, c",
    }.items():
        with pytest.raises(SqlValidationError, match=re.escape(words)):
            tables.execute_sql(f"ALTER TABLE u {change}")
    done(tables, "ALTER TABLE u DROP IF EXISTS PARTITION (b = 'x', c = 1), PARTITION (b = 'z', c = 1)")
    assert names(tables, "SHOW PARTITIONS u") == ["b=y/c=2"]
    done(tables, "DROP TABLE u", "CREATE TABLE u (b INT) PARTITIONED BY (b) WITH ('connector'='print')")
    assert names(tables, "SHOW PARTITIONS u") == []
    with pytest.raises(SqlValidationError, match="'g' has no partitions"):
        tables.execute_sql("SHOW PARTITIONS g")


def test_a_table_may_lose_all_columns_and_get_others(tables: TableEnvironment) -> None:
    done(tables, "ALTER TABLE g DROP (id, name, p)", "ALTER TABLE g SET ('a' = 'b')", "ALTER TABLE g ADD x INT")
    assert names(tables, "SHOW COLUMNS FROM g") == ["x"]


@pytest.mark.parametrize("create", ["CREATE TABLE", "CREATE OR REPLACE TABLE", "REPLACE TABLE"])
def test_explain_of_a_table_as_a_query_leaves_the_catalog_as_it_is(tables: TableEnvironment, create: str) -> None:
    made = "orders" if "REPLACE" in create else "made"
    done(tables, "ALTER TABLE orders ADD PARTITION (item = 'x')")
    before = tables.catalog.tables()
    (plan,) = names(tables, f"EXPLAIN {create} {made} WITH ('connector'='print') AS SELECT name, id FROM g")
    assert f"Insert(default_catalog.default_database.{made})\n+- Project(name, id)" in plan
    assert tables.catalog.tables() == before
    assert names(tables, "SHOW PARTITIONS orders") == ["item=x"]


@pytest.mark.parametrize("create", ["CREATE TABLE", "CREATE TABLE IF NOT EXISTS"])
def test_explain_of_a_table_as_a_query_is_also_of_a_table_that_is_there(tables: TableEnvironment, create: str) -> None:
    before = tables.catalog.tables()
    (plan,) = names(tables, f"EXPLAIN {create} orders WITH ('connector'='print') AS SELECT name, id FROM g")
    assert "Project(name, id)" in plan
    assert tables.catalog.tables() == before


def test_a_table_as_a_query_that_cannot_be_filled_leaves_no_table_behind(tables: TableEnvironment) -> None:
    done(tables, "CREATE TEMPORARY TABLE own (q INT) WITH ('connector'='print')")
    before = tables.catalog.tables()
    for statement, words in {
        "CREATE OR REPLACE TEMPORARY TABLE orders WITH ('connector'='nosuch') AS SELECT id FROM g": "nosuch",
        "CREATE OR REPLACE TABLE own WITH ('connector'='print') AS SELECT id FROM g": "temporary table 'own'",
        "EXPLAIN CREATE TABLE own WITH ('connector'='print') AS SELECT id FROM g": "temporary table 'own'",
    }.items():
        with pytest.raises(InvalidProgramError, match=words):
            tables.execute_sql(statement)
        assert tables.catalog.tables() == before
    names(tables, "EXPLAIN CREATE OR REPLACE TEMPORARY TABLE orders WITH ('connector'='print') AS SELECT id FROM g")
    with pytest.raises(SqlValidationError, match="'orders' is not temporary"):
        tables.execute_sql("DROP TEMPORARY TABLE orders")
    done(tables, "DROP TEMPORARY TABLE own")
    assert "own" not in names(tables, "SHOW TABLES")


def test_a_temporary_table_has_partitions_of_its_own(tables: TableEnvironment) -> None:
    done(
        tables,
        "ALTER TABLE orders ADD PARTITION (item = 'x')",
        "CREATE TEMPORARY TABLE orders (a INT, b INT) PARTITIONED BY (b) WITH ('connector'='print')",
        "ALTER TABLE orders ADD PARTITION (b = -1)",
    )
    assert names(tables, "SHOW PARTITIONS orders") == ["b=-1"]
    done(tables, "DROP TEMPORARY TABLE orders")
    assert names(tables, "SHOW PARTITIONS orders") == ["item=x"]


def test_in_batch_mode_no_plan_has_changes(tables: TableEnvironment) -> None:
    (streaming,) = names(tables, "EXPLAIN CHANGELOG_MODE SELECT COUNT(*) FROM g")
    done(tables, "SET 'execution.runtime-mode' = 'batch'")
    (batch,) = names(tables, "EXPLAIN CHANGELOG_MODE SELECT COUNT(*) FROM g")
    assert ("changelogMode" in streaming, "changelogMode" in batch) == (True, False)


def test_comments_are_kept_and_given_as_in_flink(tables: TableEnvironment) -> None:
    done(tables, "ALTER TABLE orders MODIFY id DECIMAL(20, 0) NOT NULL", "CREATE TABLE o COMMENT 'x' LIKE orders")
    assert next(row[6] for row in tables.execute_sql("DESCRIBE orders").collect()) == "the id"
    done(tables, "CREATE TABLE p LIKE o", "CREATE CATALOG c WITH ('type'='generic_in_memory')")
    assert "COMMENT 'x'" in names(tables, "SHOW CREATE TABLE o")[0]
    assert "COMMENT 'x'" not in names(tables, "SHOW CREATE TABLE p")[0]
    for comment in (None, "mine"):
        assert [tuple(row) for row in tables.execute_sql("DESCRIBE CATALOG c").collect()][2] == ("comment", comment)
        done(tables, "ALTER CATALOG c COMMENT 'mine'")


def test_statements_that_change_nothing_here_are_taken(tables: TableEnvironment) -> None:
    done(tables, "USE MODULES core", "DROP MODEL IF EXISTS m", "DROP MATERIALIZED TABLE IF EXISTS m")
    with pytest.raises(SqlError, match="there is one module, core"):
        tables.execute_sql("USE MODULES hive, core")
    with pytest.raises(SqlError, match="core is named twice"):
        tables.execute_sql("USE MODULES core, core")


def test_the_options_of_a_catalog_are_set_and_reset_but_its_type(tables: TableEnvironment) -> None:
    def options() -> list[str]:
        rows = [tuple(row) for row in tables.execute_sql("DESCRIBE CATALOG EXTENDED c").collect()]
        return [f"{name} {value}" for name, value in rows if name.startswith("option")]

    done(tables, "CREATE CATALOG c WITH ('type'='generic_in_memory', 'default-database'='q')")
    done(tables, "ALTER CATALOG c RESET ('default-database', 'nosuch')")
    assert options() == []
    done(tables, "ALTER CATALOG c SET ('default-database'='z')", "ALTER CATALOG IF EXISTS d RESET ('a')")
    assert options() == ["option:default-database z"]
    for change, problem in {
        "c RESET ('type')": "type of a catalog",
        "c SET ('type'='jdbc')": "type of a catalog",
        "c SET ('k'='v')": "not 'k'",
        "d RESET ('a')": "no catalog 'd'",
        "c RENAME TO d": "SET, RESET and COMMENT",
    }.items():
        with pytest.raises(SqlError, match=problem):
            tables.execute_sql(f"ALTER CATALOG {change}")
    assert options() == ["option:default-database z"]


def test_the_columns_of_a_view_have_names_of_their_own(tables: TableEnvironment) -> None:
    with pytest.raises(SqlValidationError, match="several columns the name 'a'"):
        tables.execute_sql("CREATE VIEW v AS SELECT 1 AS a, 2 AS a")
    done(tables, "CREATE VIEW v (a, b) AS SELECT 1 AS a, 2 AS a")


def test_comments_of_fields_are_shown_as_they_were_written(tables: TableEnvironment) -> None:
    fields = "`a` INT 'the a', `b` ARRAY<ROW<`c` DATE NOT NULL 'it''s', `d` INT>> 'x'"
    done(tables, f"CREATE TABLE o (r ROW<{fields}>, m MAP<INT, ROW<`e` INT 'in a map'>>) WITH ('connector'='print')")
    done(tables, "ALTER TABLE o ADD z INT")
    (shown,) = names(tables, "SHOW CREATE TABLE o")
    assert f"`r` ROW<{fields}>,\n  `m` MAP<INT, ROW<`e` INT 'in a map'>>,\n  `z` INT\n" in shown


def test_a_temporary_table_hides_the_one_of_its_name(tables: TableEnvironment) -> None:
    done(tables, "CREATE TEMPORARY TABLE g (other INT) WITH ('connector'='print')")
    assert names(tables, "SHOW COLUMNS FROM g") == ["other"]
    done(tables, "DROP TEMPORARY TABLE g")
    assert names(tables, "SHOW COLUMNS FROM g") == ["id", "name", "p"]


def test_names_are_of_the_current_catalog_and_database(tables: TableEnvironment) -> None:
    done(
        tables,
        "CREATE VIEW v AS SELECT id FROM g",
        "CREATE CATALOG c WITH ('type'='generic_in_memory', 'default-database'='first')",
        "CREATE DATABASE c.nearby COMMENT 'b'",
        "USE CATALOG c",
    )
    assert names(tables, "SHOW CURRENT DATABASE") == ["first"]
    done(tables, "USE nearby", "CREATE TABLE g (here INT)")
    assert names(tables, "SHOW COLUMNS FROM g") == ["here"]
    # The view is still of the database that it was made in.
    assert tables.sql_query("SELECT * FROM default_catalog.default_database.v").columns == ["id"]
    assert names(tables, "SHOW DATABASES") == ["first", "nearby"]
    with pytest.raises(SqlValidationError, match="current database"):
        tables.execute_sql("DROP DATABASE nearby")
    done(tables, "USE first")
    with pytest.raises(SqlValidationError, match="has tables, such as 'g'"):
        tables.execute_sql("DROP DATABASE nearby")
    done(tables, "DROP DATABASE nearby CASCADE", "USE CATALOG default_catalog", "DROP CATALOG c")
    assert names(tables, "SHOW CATALOGS") == ["default_catalog"]


@pytest.mark.parametrize(
    ("sql", "place", "words"),
    [
        ("DROP TABLE orderz", "orderz", "there is no table 'orderz'; did you mean 'orders'?"),
        ("DROP VIEW orders", "orders", "'orders' is a table, no view: write TABLE"),
        ("CREATE TABLE g (a INT)", "g", "there is a table 'g' already"),
        ("CREATE TABLE m (a, b) WITH ('connector'='print')", "a", "column 'a' has no type"),
        ("ALTER TABLE g RESET ('connector')", "RESET ('connector')", "a table keeps its connector"),
        ("ALTER TABLE g DROP PRIMARY KEY", "DROP PRIMARY KEY", "the table has no PRIMARY KEY"),
        ("ALTER TABLE g DROP WATERMARK", "DROP WATERMARK", "the table has no WATERMARK"),
        ("ALTER TABLE g MODIFY WATERMARK FOR p AS p", "MODIFY WATERMARK FOR p AS p", "the table has none yet: ADD it"),
        ("EXPLAIN CREATE TABLE m (a INT)", ")", "EXPLAIN is of queries, INSERT, statement sets and CREATE TABLE AS"),
        ("DROP TEMPORARY TABLE orders", "orders", "'orders' is not temporary: DROP TABLE"),
        ("DESCRIBE orderz", "orderz", "no table 'orderz'; did you mean 'orders'"),
        ("SHOW CREATE VIEW orders", "orders", "is a table: SHOW CREATE TABLE"),
        ("USE nosuch", "nosuch", "no database 'nosuch'"),
        ("CREATE TABLE x.t (a INT)", "x.t", "no database 'x'"),
        ("WITH r (n, n) AS (SELECT 1, 2) SELECT * FROM r", "n", "there are two columns 'n'"),
        ("SELECT a.x FROM (VALUES (1, 2)) AS a (x, x)", "x", "there are two columns 'x'"),
        ("CREATE VIEW v (n, n) AS SELECT 1, 2", "n", "there are two columns 'n'"),
        ("ALTER TABLE g ADD (id INT)", "id INT", "there is a column 'id' already"),
        ("INSERT INTO g SELECT 1", "SELECT 1", "1 columns, and 2 are written"),
        ("CREATE FUNCTION f AS 'a.B'", "CREATE FUNCTION f AS 'a.B'", "LANGUAGE PYTHON"),
        ("TRUNCATE TABLE g", "TRUNCATE TABLE g", "tables are not emptied here"),
        ("EXPLAIN ESTIMATED_COST SELECT 1", "EXPLAIN ESTIMATED_COST SELECT 1", "EXPLAIN ESTIMATED_COST is not there"),
        (
            "WITH w AS (SELECT 1) SELECT * FROM w /*+ OPTIONS('a'='b') */",
            "OPTIONS('a'='b')",
            "'w' is a query; hints of a table stand where the query reads it",
        ),
        ("INSERT INTO g /*+ NOSUCH('a'='b') */ SELECT 1, 'a'", "g", "no hint 'NOSUCH' of a table; there is OPTIONS"),
        ("INSERT OVERWRITE g SELECT id, name FROM g", "INSERT OVERWRITE g SELECT id, name FROM g", "INSERT OVERWRITE"),
    ],
)
def test_what_does_not_fit_is_shown_in_its_place(tables: TableEnvironment, sql: str, place: str, words: str) -> None:
    with pytest.raises(SqlError, match=re.escape(words)) as raised:
        tables.execute_sql(sql)
    assert sql[raised.value.start : raised.value.end] == place


def test_if_exists_and_if_not_exists_let_things_be(tables: TableEnvironment) -> None:
    before = tables.catalog.tables()
    done(
        tables,
        "DROP TABLE IF EXISTS x",
        "DROP FUNCTION IF EXISTS x",
        "DROP DATABASE IF EXISTS x",
        "ALTER TABLE IF EXISTS x RENAME TO y",
        "CREATE TABLE IF NOT EXISTS g (other INT)",
        "CREATE DATABASE IF NOT EXISTS default_database",
    )
    assert tables.catalog.tables() == before


def test_settings_are_those_of_the_environment(tables: TableEnvironment) -> None:
    done(tables, "SET 'parallelism.default' = '3'", "SET 'table.exec.state.ttl' = '1 h'")
    assert ("parallelism.default", "3") in [tuple(row) for row in tables.execute_sql("SET").collect()]
    done(tables, "RESET 'parallelism.default'")
    assert "parallelism.default" not in names(tables, "SET")
    done(tables, "SET table.exec.state.ttl=3h", "set pipeline.name =  one-two;")
    shown = dict(tuple(row) for row in tables.execute_sql("SET").collect())
    assert (shown["table.exec.state.ttl"], shown["pipeline.name"]) == ("10800000", "one-two")
    done(tables, "RESET pipeline.name")
    assert "pipeline.name" not in names(tables, "SET")
    with pytest.raises(SqlParserError, match="in single quotes where it has // in it"):
        tables.execute_sql("SET execution.checkpointing.dir = s3://bucket/dir")
    done(tables, "SET 'execution.target' = 'ray'", "RESET")
    assert [tuple(row) for row in tables.execute_sql("SET").collect()] == [("execution.target", "local")]
    with pytest.raises(ConfigurationError, match=r"did you mean 'table\.dml-sync'"):
        tables.execute_sql("SET 'table.dml-sink' = 'true'")
    for wrong in ("Mars/Oslo", "UTC+8", "GMT-8", "EST", ""):
        with pytest.raises(ConfigurationError, match=r"America/New_York.*GMT-08:00"):
            tables.execute_sql(f"SET 'table.local-time-zone' = '{wrong}'")


def test_plans_are_explained_whether_or_not_they_can_be_executed(tables: TableEnvironment) -> None:
    text = shown(tables, "EXPLAIN SELECT name, COUNT(*) FROM g GROUP BY name")
    assert text.startswith("== Logical Plan ==\nProject(")
    assert "\n== Optimized Plan ==\n" in text
    done(tables, "CREATE TABLE sink (id INT) WITH ('connector'='blackhole')")
    insert = "INSERT INTO sink SELECT id FROM g"
    both = shown(tables, f"EXPLAIN JSON_EXECUTION_PLAN STATEMENT SET BEGIN {insert}; {insert}; END")
    assert both.count("Insert(") == 4
    assert both.count("operator 1: Source: g") == 1, "the table is read once for both"
    assert "Sink: Collect" in shown(tables, "EXPLAIN JSON_EXECUTION_PLAN SELECT name FROM g")


def test_a_plan_shows_what_the_rows_of_each_node_do(tables: TableEnvironment) -> None:
    upserts = "WITH ('connector'='jdbc', 'url'='jdbc:postgresql://h/d', 'table-name'='t')"
    done(
        tables,
        f"CREATE TABLE by_key (id INT, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) {upserts}",
        f"CREATE TABLE by_count (n BIGINT, names BIGINT, PRIMARY KEY (n) NOT ENFORCED) {upserts}",
        "CREATE TABLE shown (id INT, n BIGINT) WITH ('connector'='print')",
    )
    query = "SELECT id, COUNT(*) FROM g GROUP BY id"
    counts = {
        query: ["I,UB,UA"],
        f"INSERT INTO by_key {query}": ["NONE", "I,UA"],
        f"INSERT INTO shown {query}": ["NONE", "I,UB,UA"],
        "INSERT INTO by_count SELECT n, COUNT(*) FROM (SELECT COUNT(*) AS n FROM g GROUP BY name) GROUP BY n": [
            *("NONE", "I,UA,D", "I,UB,UA")
        ],
    }
    for statement, kinds in counts.items():
        text = shown(tables, f"EXPLAIN CHANGELOG_MODE {statement}").partition("== Optimized Plan ==")[2]
        found = re.findall(r"(\w+)\(.*changelogMode=\[(.*)\]", text)
        assert [mode for node, mode in found if node in ("Insert", "Aggregate")] == kinds, text
        assert found[-1] == ("Scan", "I")


def test_a_result_gives_its_rows_once(tables: TableEnvironment) -> None:
    result = tables.execute_sql("SHOW CATALOGS")
    assert result.to_pandas().to_dict("list") == {"catalog name": ["default_catalog"]}
    with pytest.raises(InvalidProgramError, match="have been taken"):
        result.collect()
    assert "<td>default_catalog</td>" in tables.execute_sql("SHOW CATALOGS")._repr_html_()


def test_the_table_of_create_table_as_stays_only_where_its_job_begins(tables: TableEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match="no connector 'printt'; did you mean 'print'"):
        tables.execute_sql("CREATE TABLE t WITH ('connector'='printt') AS SELECT id FROM g")
    assert "t" not in names(tables, "SHOW TABLES")


def test_options_of_jobs_and_hints_are_those_of_statements(tables: TableEnvironment) -> None:
    done(tables, "CREATE TABLE sink (id INT) WITH ('connector'='blackhole')", "SET 'parallelism.default' = '2'")
    insert = "EXPLAIN JSON_EXECUTION_PLAN INSERT INTO sink SELECT id FROM g"
    assert "parallelism 2" in shown(tables, insert)
    done(tables, "SET 'table.exec.resource.default-parallelism' = '3'")
    assert "parallelism 3" in shown(tables, insert)
    assert ("parallelism.default", "2") in [tuple(row) for row in tables.execute_sql("SET").collect()]
    done(tables, "SET 'table.dynamic-table-options.enabled' = 'false'")
    with pytest.raises(
        SqlError, match=r"the hint OPTIONS is there, and table\.dynamic-table-options\.enabled is false"
    ):
        tables.execute_sql("INSERT INTO sink /*+ OPTIONS('a' = 'b') */ SELECT 1")
    done(tables, "SET 'table.exec.mini-batch.enabled' = 'true'", "SET 'table.exec.mini-batch.size' = '5'")
    with pytest.raises(ConfigurationError, match=r"needs table\.exec\.mini-batch\.allow-latency above 0"):
        tables.execute_sql("SELECT 1")
    done(tables, "SET 'flinkray.table.row-by-row' = 'true'")
    with pytest.raises(ConfigurationError, match="are both set"):
        tables.execute_sql("SELECT 1")
