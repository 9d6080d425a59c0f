import datetime

from flinkray.pyflink.common import Row
from flinkray.pyflink.table import (
    DataTypes,
    EnvironmentSettings,
    ExplainDetail,
    FormatDescriptor,
    ResultKind,
    Schema,
    TableDescriptor,
    TableEnvironment,
)
from flinkray.pyflink.table.expressions import (
    col,
    concat,
    lit,
    range_,
    row,
    with_all_columns,
    with_columns,
    without_columns,
)  # fmt: skip


def environment(settings=None):
    t_env = TableEnvironment.create(settings or EnvironmentSettings.in_batch_mode())
    t_env.get_config().set("parallelism.default", "1")
    return t_env


def rows(table):
    with table.execute().collect() as found:
        return sorted([f"{each.get_row_kind()} {[*each]}" for each in found])


def show(name, table):
    print(f"{name}: {table.get_schema().get_field_names()} {rows(table)}", flush=True)


def columns(t_env):
    t = t_env.from_elements([(1, "a", 1.5), (2, "b", 2.5)], ["id", "name", "x"])
    show("add", t.add_columns((col("id") + 1).alias("next"), lit("c").alias("mark")))
    show("add_or_replace", t.add_or_replace_columns(concat(col("name"), "!").alias("name"), lit(1).alias("new")))
    show("rename", t.rename_columns(col("id").alias("key"), col("x").alias("y")))
    show("drop", t.drop_columns(col("id"), col("x")))
    show("alias", t.alias("a", "b", "c"))
    show("with_columns", t.select(with_columns(range_("name", "x"), col("id"))))
    show("with_numbers", t.select(with_columns(range_(2, 3))))
    show("without", t.select(without_columns(col("name"))))
    show("without_range", t.select(without_columns(range_(1, 2))))
    show("with_all", t.select(with_all_columns(), lit(0).alias("zero")))
    show("in_call", t.select(concat(with_columns(range_("name", "name")), "-").alias("c")))
    show("dropped_set", t.drop_columns(with_columns(range_("id", "name"))))
    show("unnamed", t.select(col("id") + 1, col("name"), lit(2)))
    show("attributes", t.select(t.id, t.name.upper_case))
    show(
        "nested",
        t_env.from_elements(
            [(Row(1, "a"),)],
            DataTypes.ROW(
                [
                    DataTypes.FIELD(
                        "r",
                        DataTypes.ROW(
                            [DataTypes.FIELD("n", DataTypes.INT()), DataTypes.FIELD("s", DataTypes.STRING())]
                        ),
                    )
                ]
            ),
        ).select(col("r").flatten),
    )
    show(
        "field",
        t_env.from_elements(
            [(Row(1, "a"),)],
            DataTypes.ROW(
                [
                    DataTypes.FIELD(
                        "r",
                        DataTypes.ROW(
                            [DataTypes.FIELD("n", DataTypes.INT()), DataTypes.FIELD("s", DataTypes.STRING())]
                        ),
                    )
                ]
            ),
        ).select(col("r").get("n"), col("r").get(1)),
    )


def relations(t_env):
    left = t_env.from_elements([(1, "a"), (1, "a"), (2, "b"), (3, "c")], ["id", "name"])
    right = t_env.from_elements([(1, "a"), (3, "c"), (3, "c"), (4, "d")], ["id", "name"])
    other = right.alias("key", "what")
    show("union", left.union(right))
    show("union_all", left.union_all(right))
    show("intersect", left.intersect(right))
    show("intersect_all", left.intersect_all(right))
    show("minus", left.minus(right))
    show("minus_all", left.minus_all(right))
    show("join", left.join(other).where(col("id") == col("key")).select(col("id"), col("what")))
    show("join_on", left.join(other, (col("id") == col("key")) & (col("what") != "a")))
    show("left", left.left_outer_join(other, col("id") == col("key")))
    show("right", left.right_outer_join(other, col("id") == col("key")))
    show("full", left.full_outer_join(other, col("id") == col("key")))
    show("in_table", left.where(col("id").in_(other.select(col("key")))))
    show("distinct", left.distinct())
    show("order_offset_fetch", left.order_by(col("id").desc, col("name").asc).offset(1).fetch(2))
    show("limit", left.order_by(col("id")).limit(2, 1))
    show("group", left.group_by(col("name")).select(col("name"), col("id").sum.alias("s"), lit(1).count.alias("n")))
    show("group_by_two", left.group_by(col("id"), col("name")).select(col("name"), col("id").max + 1))
    show(
        "aggregates",
        left.select(
            col("id").count,
            col("id").avg,
            col("id").min,
            col("id").count.distinct,
            col("name").first_value,
            col("id").stddev_pop,
            col("id").sum.distinct,
        ),
    )
    show(
        "collections",
        left.group_by(col("name")).select(
            col("name"), col("id").collect, col("id").array_agg, col("name").list_agg("+")
        ),
    )
    show("having", left.group_by(col("name")).select(col("name"), col("id").sum.alias("s")).where(col("s") > 2))
    show("no_rows", left.where(col("id") > 9).select(col("id").sum, col("id").count))
    show("sql", t_env.sql_query(f"SELECT name, COUNT(*) AS n FROM {left} GROUP BY name"))


def sources(t_env):
    kind = DataTypes.ROW([DataTypes.FIELD("a", DataTypes.BIGINT()), DataTypes.FIELD("b", DataTypes.STRING())])
    show("elements_with_row", t_env.from_elements([(1, "x"), (2, None)], kind))
    show("elements_of_dicts", t_env.from_elements([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]))
    show("elements_without_names", t_env.from_elements([(1, "x"), (2, "y")]))
    show("unverified", t_env.from_elements([(1, "x")], kind, verify_schema=False))
    show("expressions", t_env.from_elements([row(1, "x"), row(2, "y")], kind))
    show("nullable", t_env.from_elements([(None, 1), ("a", None)], ["a", "b"]))
    show("of_values", t_env.from_elements([(1, [1, 2], datetime.date(2024, 1, 2), True)], list("abcd")))
    import pandas as pd

    frame = pd.DataFrame({"n": [1, 2, 3], "s": ["a", "b", None], "f": [1.5, 2.5, 3.5]})
    show("pandas", t_env.from_pandas(frame))
    show("pandas_names", t_env.from_pandas(frame, ["x", "y", "z"]))
    show("pandas_types", t_env.from_pandas(frame, [DataTypes.INT(), DataTypes.STRING(), DataTypes.FLOAT()]))
    show("pandas_row", t_env.from_pandas(frame[["n"]], DataTypes.ROW([DataTypes.FIELD("q", DataTypes.SMALLINT())])))
    show("pandas_splits", t_env.from_pandas(frame, splits_num=2))
    print(
        "to_pandas:",
        t_env.from_pandas(frame).where(col("n") > 1).select(col("n"), col("f")).to_pandas().to_dict("list"),
    )
    print("to_pandas_empty:", t_env.from_pandas(frame).where(col("n") > 9).to_pandas().shape)
    descriptor = (
        TableDescriptor.for_connector("datagen")
        .schema(Schema.new_builder().column("n", DataTypes.INT()).column_by_expression("twice", "n * 2").build())
        .option("number-of-rows", "3")
        .option("fields.n.kind", "sequence")
        .option("fields.n.start", "1")
        .option("fields.n.end", "3")
        .build()
    )
    show("descriptor", t_env.from_descriptor(descriptor))
    t_env.create_temporary_table("made", descriptor)
    show("from_path", t_env.from_path("made").select(col("twice").sum))
    files = (
        TableDescriptor.for_connector("filesystem")
        .schema(Schema.new_builder().column("a", "INT").build())
        .format(FormatDescriptor.for_format("csv").option("field-delimiter", ";").build())
        .option("path", "/p")
        .partitioned_by("a")
        .comment("of files")
        .build()
    )
    print("files:", sorted(files.get_options().items()), files.get_comment(), files.get_partition_keys())
    t_env.from_elements([(1, "a")], ["a", "b"]).print_schema()
    made = t_env.from_elements([(1, "a")], ["a", "b"]).get_schema()
    print("schema:", made.get_field_count(), made.get_field_name(1), made.get_field_names())


def results(t_env):
    t = t_env.from_elements([(1, "a")], ["a", "b"])
    found = t_env.execute_sql("CREATE TABLE sink (a BIGINT, b STRING) WITH ('connector' = 'blackhole')")
    print(
        "ddl:",
        found.get_result_kind() == ResultKind.SUCCESS,
        found.get_job_client(),
        [[*each] for each in found.collect()],
    )
    inserted = t.execute_insert("sink")
    inserted.wait()
    print(
        "insert:",
        inserted.get_result_kind() == ResultKind.SUCCESS_WITH_CONTENT,
        inserted.get_job_client() is not None,
        [[*each] for each in inserted.collect()],
        inserted.get_table_schema().get_field_names(),
    )
    both = t_env.create_statement_set()
    t_env.execute_sql("CREATE TABLE other_sink (a BIGINT, b STRING) WITH ('connector' = 'blackhole')")
    both.add_insert("sink", t).add_insert_sql("INSERT INTO other_sink SELECT 2, 'b'")
    two = both.execute()
    two.wait(60000)
    print("set:", [[*each] for each in two.collect()], two.get_table_schema().get_field_names())
    print(
        "explains:",
        all(
            isinstance(each, str)
            for each in (
                t.explain(),
                t.explain(ExplainDetail.CHANGELOG_MODE),
                t_env.explain_sql("SELECT 1", ExplainDetail.CHANGELOG_MODE),
                t.explain(ExplainDetail.JSON_EXECUTION_PLAN),
            )
        ),
    )
    t.insert_into("sink").execute().wait()
    t_env.execute_sql("SELECT 1 AS a, 'x' AS b").print()


def main():
    t_env = environment()
    columns(t_env)
    relations(t_env)
    sources(t_env)
    results(t_env)


if __name__ == "__main__":
    main()
