from flinkray.pyflink.common import Row, RowKind, Types, WatermarkStrategy
from flinkray.pyflink.common.watermark_strategy import TimestampAssigner
from flinkray.pyflink.datastream import ProcessFunction, StreamExecutionEnvironment
from flinkray.pyflink.table import (
    ChangelogMode,
    DataTypes,
    Schema,
    StreamTableEnvironment,
)
from flinkray.pyflink.table.expressions import (
    CURRENT_RANGE,
    CURRENT_ROW,
    UNBOUNDED_RANGE,
    UNBOUNDED_ROW,
    col,
    lit,
    row_interval,
)
from flinkray.pyflink.table.udf import udaf
from flinkray.pyflink.table.window import Over, Session, Slide, Tumble


class Seconds(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2] * 1000


class Timed(ProcessFunction):
    def process_element(self, value, ctx):
        yield f"{value.get_row_kind()} {[each for each in value if isinstance(each, int | str)]} {ctx.timestamp()}"


EVENTS = [("a", 1, 1), ("b", 5, 2), ("a", 3, 4), ("a", 2, 11), ("b", 1, 12), ("a", 9, 25)]


def environment():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    return env, StreamTableEnvironment.create(env)


def rows(table):
    left = []
    with table.execute().collect() as found:
        for each in found:
            if str(each.get_row_kind()) in ("+I", "+U"):
                left.append(f"{[*each]}")
            else:
                left.remove(f"{[*each]}")
    return sorted(left)


def show(name, table):
    print(f"{name}: {table.get_schema().get_field_names()} {rows(table)}", flush=True)


def changes(name, stream):
    """The last row of each key, and which kinds of rows there are: how often a row is updated is nobody's promise."""
    last, kinds = {}, set()
    with stream.execute_and_collect() as found:
        for row in found:
            kinds.add(str(row.get_row_kind()))
            if str(row.get_row_kind()) in ("+I", "+U"):
                last[row[0]] = [*row]
    print(f"{name}: {sorted(last.values())} {sorted(kinds)}", flush=True)


def taken(name, stream):
    with stream.execute_and_collect() as found:
        print(f"{name}: {sorted(map(str, found))}", flush=True)


def timed(env, t_env):
    kind = Types.ROW_NAMED(["k", "n", "s"], [Types.STRING(), Types.INT(), Types.INT()])
    stream = env.from_collection([Row(*each) for each in EVENTS], kind).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Seconds())
    )
    schema = (
        Schema.new_builder()
        .column("k", DataTypes.STRING())
        .column("n", DataTypes.INT())
        .column("s", DataTypes.INT())
        .column_by_expression("ts", "TO_TIMESTAMP_LTZ(s, 0)")
        .watermark("ts", "ts - INTERVAL '1' SECOND")
        .build()
    )
    return t_env.from_data_stream(stream, schema).select(col("k"), col("n"), col("ts"))


def windows(env, t_env):
    t = timed(env, t_env)
    ten = lit(10).seconds
    tumbled = t.window(Tumble.over(ten).on(col("ts")).alias("w"))
    show(
        "tumble",
        tumbled.group_by(col("k"), col("w")).select(
            col("k"), col("w").start, col("w").end, col("n").sum, col("w").start.alias("again")
        ),
    )
    show(
        "tumble_all",
        tumbled.group_by(col("w")).select(col("w").start.cast(DataTypes.STRING()), col("n").max.alias("m")),
    )
    show(
        "slide",
        t.window(Slide.over(ten).every(lit(5).seconds).on(col("ts")).alias("w"))
        .group_by(col("w"), col("k"))
        .select(col("k"), col("w").end.alias("e"), col("n").count.alias("c")),
    )
    show(
        "session",
        t.window(Session.with_gap(lit(5).seconds).on(col("ts")).alias("w"))
        .group_by(col("w"), col("k"))
        .select(col("k"), col("w").start, col("w").end, col("n").avg),
    )
    mean = udaf(lambda n: n.mean(), result_type=DataTypes.DOUBLE(), func_type="pandas")
    show("pandas_window", tumbled.group_by(col("k"), col("w")).select(col("k"), mean(col("n")), col("w").start))
    show(
        "rowtime_of_window",
        tumbled.group_by(col("w"))
        .select(col("w").rowtime.alias("ts"), col("n").sum.alias("n"))
        .window(Tumble.over(lit(20).seconds).on(col("ts")).alias("v"))
        .group_by(col("v"))
        .select(col("v").start, col("n").sum),
    )
    over = Over.partition_by(col("k")).order_by(col("ts"))
    show(
        "over_range",
        t.over_window(over.preceding(lit(10).seconds).alias("w")).select(
            col("k"), col("n"), col("n").sum.over(col("w")), col("n").count.over(col("w")).alias("c")
        ),
    )
    show(
        "over_rows",
        t.over_window(over.preceding(row_interval(1)).following(CURRENT_ROW).alias("w")).select(
            col("k"), col("n").sum.over(col("w"))
        ),
    )
    show(
        "over_unbounded",
        t.over_window(over.preceding(UNBOUNDED_RANGE).following(CURRENT_RANGE).alias("w")).select(
            col("k"), col("n").max.over(col("w"))
        ),
    )
    show(
        "over_unbounded_rows",
        t.over_window(over.preceding(UNBOUNDED_ROW).alias("w")).select(col("k"), col("n").min.over(col("w"))),
    )
    show(
        "over_all",
        t.over_window(Over.order_by(col("ts")).preceding(UNBOUNDED_RANGE).alias("w")).select(
            col("n").sum.over(col("w"))
        ),
    )
    show(
        "pandas_over_range",
        t.over_window(over.preceding(lit(10).seconds).alias("w")).select(
            col("k"), col("n"), mean(col("n")).over(col("w"))
        ),
    )
    show(
        "pandas_over_rows",
        t.over_window(over.preceding(row_interval(1)).alias("w")).select(
            col("k"), mean(col("n")).over(col("w")), col("n")
        ),
    )


def to_streams(env, t_env):
    t = timed(env, t_env)
    taken("to_data_stream", t_env.to_data_stream(t).process(Timed()))
    grouped = t.group_by(col("k")).select(col("k"), col("n").sum.alias("n"))
    changes("to_changelog", t_env.to_changelog_stream(grouped))
    plain = Schema.new_builder().column("k", DataTypes.STRING()).column("n", DataTypes.BIGINT())
    changes("to_changelog_schema", t_env.to_changelog_stream(grouped, plain.build()))
    changes(
        "to_changelog_upsert",
        t_env.to_changelog_stream(
            grouped,
            Schema.new_builder()
            .column("k", DataTypes.STRING().not_null())
            .column("n", DataTypes.BIGINT())
            .primary_key("k")
            .build(),
            ChangelogMode.upsert(),
        ),
    )
    changes("to_changelog_all", t_env.to_changelog_stream(grouped, plain.build(), ChangelogMode.all()))
    with_time = (
        Schema.new_builder()
        .column("n", DataTypes.INT())
        .column_by_metadata("rowtime", DataTypes.TIMESTAMP_LTZ(3))
        .build()
    )
    taken(
        "to_changelog_rowtime",
        t_env.to_changelog_stream(
            t.select(col("n"), col("ts").cast(DataTypes.TIMESTAMP_LTZ(3)).alias("rowtime")), with_time
        ).process(Timed()),
    )
    taken(
        "window_times",
        t_env.to_data_stream(
            t.window(Tumble.over(lit(10).seconds).on(col("ts")).alias("w"))
            .group_by(col("w"))
            .select(col("n").sum.alias("n"), col("w").rowtime.alias("ts"))
        ).process(Timed()),
    )


def from_streams(env, t_env):
    kind = Types.ROW_NAMED(["k", "n"], [Types.STRING(), Types.INT()])
    stream = env.from_collection([Row("a", 1), Row("b", 2)], kind)
    show("stream", t_env.from_data_stream(stream))
    show("stream_columns", t_env.from_data_stream(stream, col("x"), col("y")))
    show("stream_of_values", t_env.from_data_stream(env.from_collection([1, 2], Types.INT())))
    show(
        "stream_of_tuples",
        t_env.from_data_stream(env.from_collection([(1, "a")], Types.TUPLE([Types.INT(), Types.STRING()]))),
    )
    t_env.create_temporary_view("rows_of_stream", stream)
    show("view", t_env.sql_query("SELECT k, n + 1 AS m FROM rows_of_stream"))
    t_env.create_temporary_view("named_rows", stream, col("a"), col("b"))
    show("view_columns", t_env.from_path("named_rows").select(col("b"), col("a")))
    t_env.create_temporary_view("rows_of_schema", stream, Schema.new_builder().column("k", DataTypes.STRING()).build())
    show("view_schema", t_env.from_path("rows_of_schema"))
    changed = env.from_collection(
        [
            Row.of_kind(RowKind.INSERT, "a", 1),
            Row.of_kind(RowKind.UPDATE_BEFORE, "a", 1),
            Row.of_kind(RowKind.UPDATE_AFTER, "a", 4),
            Row.of_kind(RowKind.INSERT, "b", 2),
            Row.of_kind(RowKind.DELETE, "b", 2),
        ],
        kind,
    )
    show("changelog", t_env.from_changelog_stream(changed))
    show(
        "changelog_schema",
        t_env.from_changelog_stream(
            changed, Schema.new_builder().column("k", "STRING").column("n", "INT").build(), ChangelogMode.all()
        )
        .group_by(col("k"))
        .select(col("k"), col("n").sum),
    )
    upserts = env.from_collection(
        [
            Row.of_kind(RowKind.INSERT, "a", 1),
            Row.of_kind(RowKind.UPDATE_AFTER, "a", 4),
            Row.of_kind(RowKind.INSERT, "b", 2),
            Row.of_kind(RowKind.DELETE, "b", 2),
        ],
        kind,
    )
    show(
        "upserts",
        t_env.from_changelog_stream(
            upserts,
            Schema.new_builder()
            .column("k", DataTypes.STRING().not_null())
            .column("n", DataTypes.INT())
            .primary_key("k")
            .build(),
            ChangelogMode.upsert(),
        ).select(col("n").sum),
    )
    append = t_env.to_append_stream(
        t_env.from_elements([(1, "a"), (2, "b")], ["n", "s"]), Types.ROW([Types.LONG(), Types.STRING()])
    )
    taken("append", append.map(lambda row: f"{[*row]}"))
    retract = t_env.to_retract_stream(
        t_env.from_elements([(1, "a"), (2, "a")], ["n", "s"]).group_by(col("s")).select(col("n").sum),
        Types.ROW([Types.LONG()]),
    )
    with retract.execute_and_collect() as pairs:
        print("retract:", sum(sum(row) if is_added else -sum(row) for is_added, row in pairs))
    statements = t_env.create_statement_set()
    t_env.execute_sql("CREATE TABLE nowhere (n BIGINT, s STRING) WITH ('connector' = 'blackhole')")
    statements.add_insert("nowhere", t_env.from_elements([(1, "a")], ["n", "s"]))
    statements.attach_as_datastream()
    env.from_collection([7], Types.INT()).print()
    env.execute("attached")


def main():
    env, t_env = environment()
    windows(env, t_env)
    to_streams(env, t_env)
    from_streams(env, t_env)


if __name__ == "__main__":
    main()
