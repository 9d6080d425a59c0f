from decimal import Decimal

from flinkray.pyflink.common import Row, Types, WatermarkStrategy
from flinkray.pyflink.common.watermark_strategy import TimestampAssigner
from flinkray.pyflink.datastream import StreamExecutionEnvironment
from flinkray.pyflink.table import DataTypes, Schema, StreamTableEnvironment
from flinkray.pyflink.table.expressions import UNBOUNDED_RANGE, UNBOUNDED_ROW, col, lit
from flinkray.pyflink.table.udf import udf, udtf
from flinkray.pyflink.table.window import Over, Tumble


class Milliseconds(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value if isinstance(value, int) else value[2]


TIMED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Milliseconds())
ROW = DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT()), DataTypes.FIELD("b", DataTypes.STRING())])


def plain(value):
    return [*map(plain, value)] if isinstance(value, Row | list) else value


def rows(table):
    with table.execute().collect() as found:
        return sorted(f"{plain(each)}" for each in found)


def show(name, make):
    try:
        table = make()
        print(f"{name}: {table.get_schema().get_field_names()} {rows(table)}", flush=True)
    except Exception:
        print(f"{name}: refused", flush=True)


def fields(env, t_env):
    kind = Types.ROW_NAMED(["k", "n", "m"], [Types.STRING(), Types.INT(), Types.LONG()])
    values = [Row("a", 1, 1000), Row("b", 2, 2000), Row("a", 3, 12000)]

    def taken(name, *chosen):
        stream = env.from_collection(values, kind).assign_timestamps_and_watermarks(TIMED)
        show(name, lambda: t_env.from_data_stream(stream, *chosen))

    def of_tuples(name, *chosen):
        pairs = env.from_collection([("a", 1), ("b", 2)], Types.TUPLE([Types.STRING(), Types.INT()]))
        show(name, lambda: t_env.from_data_stream(pairs, *chosen))

    taken("one", col("n"))
    taken("other_order", col("m"), col("k"))
    taken("alias", col("k").alias("z"), col("n"))
    taken("names_change_places", col("n").alias("k"), col("k").alias("n"))
    taken("by_place", col("x"), col("y"), col("z"))
    taken("fewer_by_place", col("x"), col("y"))
    taken("more_by_place", col("x"), col("y"), col("z"), col("w"))
    taken("name_and_none", col("x"), col("n"))
    of_tuples("tuple_by_place", col("x"), col("y"))
    of_tuples("tuple_by_name", col("f1"), col("f0"))
    of_tuples("tuple_fewer", col("a"))
    of_tuples("tuple_alias", col("f1").alias("b"))
    taken("rowtime", col("k"), col("n"), col("ts").rowtime)
    taken("rowtime_of_column", col("k"), col("n"), col("m").rowtime)
    taken("rowtime_by_place", col("a"), col("b"), col("c").rowtime)
    taken("rowtime_alias", col("k"), col("m").rowtime.alias("q"))
    taken("rowtime_added_by_place", col("a"), col("b"), col("c"), col("r").rowtime)
    taken("computed", col("n") + 1)
    numbers = env.from_collection([1000, 2000], Types.LONG()).assign_timestamps_and_watermarks(TIMED)
    show("rowtime_of_values", lambda: t_env.from_data_stream(numbers, col("v"), col("r").rowtime))
    stream = env.from_collection(values, kind).assign_timestamps_and_watermarks(TIMED)
    whole = t_env.from_data_stream(stream, col("k"), col("n"), col("ts").rowtime, col("p").proctime)
    print("proctime:", whole.get_schema().get_field_names())
    by_key = Over.partition_by(col("k"))
    total = col("n").sum.over(col("w"))
    show(
        "tumble",
        lambda: (
            whole.window(Tumble.over(lit(10).seconds).on(col("ts")).alias("w"))
            .group_by(col("w"), col("k"))
            .select(col("k"), col("n").sum, col("w").start, col("w").end, col("w").rowtime)
        ),
    )
    over = by_key.order_by(col("ts")).preceding(UNBOUNDED_RANGE).alias("w")
    show("over_rowtime", lambda: whole.over_window(over).select(col("k"), total))
    over_clock = by_key.order_by(col("p")).preceding(UNBOUNDED_ROW).alias("w")
    show("over_proctime", lambda: whole.over_window(over_clock).select(col("k"), total))
    schema = (
        Schema.new_builder()
        .column("k", "STRING")
        .column("n", "INT")
        .column("m", "BIGINT")
        .column_by_expression("ts", "TO_TIMESTAMP_LTZ(m, 3)")
        .column_by_expression("p", "PROCTIME()")
        .watermark("ts", "ts - INTERVAL '1' SECOND")
        .build()
    )
    described = t_env.from_data_stream(stream, schema)
    show("proctime_of_schema", lambda: described.over_window(over_clock).select(col("k"), total))
    t_env.create_temporary_view("times", stream, col("n"), col("r").rowtime)
    show("view", lambda: t_env.sql_query("SELECT n, r FROM times"))


def nested(t_env):
    table = t_env.sql_query(
        "SELECT 1 AS n, ROW('x', ROW(2, ARRAY[ROW('q')])) AS r, ARRAY[ROW(1, 'a')] AS a, MAP['k', ROW(5, 6)] AS m"
    )
    for name, stream in (
        ("to_data_stream", t_env.to_data_stream(table)),
        ("to_changelog_stream", t_env.to_changelog_stream(table)),
    ):
        texts = stream.map(lambda row: f"{row[1][0]} {[*row[1][1][1][0]]} {[*row[2][0]]} {[*row[3]['k']]}")
        with texts.execute_and_collect() as found:
            print(f"{name}: {[*found]}", flush=True)


def results(t_env):
    table = t_env.from_elements([(1, 1.7, "x")], ["n", "d", "s"])

    def given(name, result, kind):
        show(name, lambda: table.select(udf(lambda _: result, result_type=kind)(col("n")).alias("v")))

    given("row_by_names", Row(b="q", a=1), ROW)
    given("rows_in_an_array", [Row(b="q", a=1), Row(2, "r")], DataTypes.ARRAY(ROW))
    given("fraction_as_int", 2.9, DataTypes.INT())
    given("int_as_double", 2, DataTypes.DOUBLE())
    given("boolean_as_int", True, DataTypes.INT())
    given("int_as_boolean", 3, DataTypes.BOOLEAN())
    given("rounded_up", Decimal("1.239"), DataTypes.DECIMAL(10, 2))
    given("rounded_to_even", [Decimal("0.125"), Decimal("0.135")], DataTypes.ARRAY(DataTypes.DECIMAL(10, 2)))
    given("int_as_text", 5, DataTypes.STRING())
    given("long_text", "abcdef", DataTypes.VARCHAR(3))

    @udtf(result_types=[DataTypes.DECIMAL(5, 1), DataTypes.INT()])
    def decimals(_):
        yield Decimal("1.25"), True
        yield Decimal("1.35"), 2.5

    show("table_function", lambda: table.flat_map(decimals(col("n"))))


def inserts(t_env):
    for name in ("x", "y"):
        columns = "a INT, b AS a + 1, PRIMARY KEY (a) NOT ENFORCED"
        t_env.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'blackhole')")
    print("columns:", [[*row] for row in t_env.execute_sql("DESCRIBE x").collect()])
    for into in (["x", "x"], ["x", "y"], ["y", "x", "y"]):
        several = t_env.create_statement_set()
        for name in into:
            several.add_insert_sql(f"INSERT INTO {name} SELECT 1")
        result = several.execute()
        print(f"{into}:", result.get_table_schema().get_field_names(), [[*row] for row in result.collect()])


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    t_env = StreamTableEnvironment.create(env)
    fields(env, t_env)
    nested(t_env)
    results(t_env)
    inserts(t_env)


if __name__ == "__main__":
    main()
