import functools

from flinkray.pyflink.common import Row
from flinkray.pyflink.table import (
    AggregateFunction,
    DataTypes,
    EnvironmentSettings,
    FunctionContext,
    ListView,
    MapView,
    ScalarFunction,
    TableAggregateFunction,
    TableEnvironment,
    TableFunction,
)
from flinkray.pyflink.table.expressions import call, col, lit
from flinkray.pyflink.table.udf import udaf, udf, udtaf, udtf


def environment(settings):
    t_env = TableEnvironment.create(settings)
    t_env.get_config().set("parallelism.default", "1")
    t_env.get_config().set("pipeline.global-job-parameters", "base:40")
    return t_env


def rows(table):
    """The rows that are left at the end."""
    left = []
    with table.execute().collect() as found:
        for each in found:
            values = f"{[[*value] if isinstance(value, Row) else value for value in each]}"
            if str(each.get_row_kind()) in ("+I", "+U"):
                left.append(values)
            else:
                left.remove(values)
    return sorted(left)


def show(name, table):
    print(f"{name}: {table.get_schema().get_field_names()} {rows(table)}", flush=True)


class Plus(ScalarFunction):
    def __init__(self, step):
        self.step = step

    def open(self, function_context: FunctionContext):
        self.counter = function_context.get_metric_group().add_group("mine").counter("calls")
        self.base = int(function_context.get_job_parameter("base", "0"))

    def eval(self, n):
        self.counter.inc(1)
        return n + self.step + self.base


class Callable_:
    def __call__(self, n):
        return n * 100


@udf(result_type=DataTypes.BIGINT())
def total(*numbers):
    return sum(numbers)


@udf(result_type="STRING")
def named(a, b="-"):
    return f"{a}{b}"


@udf(
    result_type=DataTypes.ROW([DataTypes.FIELD("twice", DataTypes.BIGINT()), DataTypes.FIELD("s", DataTypes.STRING())])
)
def both(n, s):
    return Row(n * 2, s + "!")


@udf(input_types=[DataTypes.BIGINT()], result_type=DataTypes.ARRAY(DataTypes.BIGINT()))
def several(n):
    return [n] * n


@udf(result_type=DataTypes.MAP(DataTypes.STRING(), DataTypes.BIGINT()))
def mapped(s, n):
    return {s: n}


@udf(result_type=DataTypes.BIGINT(), func_type="pandas")
def shifted(series):
    return series + 1


@udf(result_type=DataTypes.BIGINT(), func_type="pandas")
def added(a, b):
    return a + b


def plus(step, n):
    return n + step


class Split(TableFunction):
    def eval(self, text):
        for each in text.split(","):
            yield each, len(each)


@udtf(result_types=[DataTypes.BIGINT()])
def upto(n):
    return range(n)


@udtf(result_types=["BIGINT", "STRING"])
def none_of_two(n):
    if n == 2:
        return
    yield n, str(n)


def scalars(t_env):
    t = t_env.from_elements([(1, "a"), (2, "b")], ["n", "s"])
    plus_one = udf(lambda n: n + 1, result_type=DataTypes.BIGINT())
    show("lambda", t.select(plus_one(col("n"))))
    show("varargs", t.select(total(col("n"), 1, col("n"))))
    show("default", t.select(named(col("s")), named(col("s"), col("s"))))
    show("partial", t.select(udf(functools.partial(plus, 5), result_type=DataTypes.BIGINT())(col("n"))))
    show("callable", t.select(udf(Callable_(), result_type=DataTypes.BIGINT())(col("n"))))
    show("opened", t.select(udf(Plus(2), result_type=DataTypes.BIGINT())(col("n"))))
    show("row", t.select(both(col("n"), col("s")).alias("r")).select(col("r").get("twice"), col("r").get("s")))
    show("row_whole", t.select(both(col("n"), col("s")).alias("r")))
    show("array", t.select(several(col("n"))))
    show("map", t.select(mapped(col("s"), col("n"))))
    show("pandas", t.select(shifted(col("n")), added(shifted(col("n")), col("n"))))
    show("mixed", t.select(plus_one(shifted(col("n")) + 1) * 2))
    show("in_where", t.where(plus_one(col("n")) > 2).select(col("s")))
    show("no_arguments", t.select(udf(lambda: 7, result_type=DataTypes.BIGINT())(), col("n")))
    show("of_constant", t.select(plus_one(lit(5)), col("n")))
    show("none", t.select(udf(lambda _: None, result_type=DataTypes.BIGINT())(col("n"))))
    t_env.create_temporary_system_function("sys_plus", plus_one)
    t_env.create_temporary_function("tmp_plus", udf(Plus(1), result_type=DataTypes.BIGINT()))
    show("call", t.select(call("sys_plus", col("n")), call("tmp_plus", col("n"))))
    show("sql", t_env.sql_query(f"SELECT sys_plus(n), tmp_plus(n) + 1 AS m FROM {t}"))
    print("functions:", t_env.list_user_defined_functions())
    print(
        "dropped:",
        t_env.drop_temporary_system_function("sys_plus"),
        t_env.drop_temporary_function("tmp_plus"),
        t_env.drop_temporary_function("tmp_plus"),
        t_env.list_user_defined_functions(),
    )
    show("map_row", t.map(both(col("n"), col("s"))))
    show(
        "map_row_based",
        t.map(
            udf(
                lambda r: Row(r.n, r[1]),
                result_type=DataTypes.ROW(
                    [DataTypes.FIELD("x", DataTypes.BIGINT()), DataTypes.FIELD("y", DataTypes.STRING())]
                ),
            )
        ),
    )


def tables(t_env):
    t = t_env.from_elements([(1, "a,bb"), (2, "c")], ["n", "s"])
    split = udtf(Split(), result_types=[DataTypes.STRING(), DataTypes.INT()])
    show("flat_map", t.flat_map(split(col("s"))))
    show("lateral", t.join_lateral(split(col("s")).alias("word", "length")))
    show("left_lateral", t.left_outer_join_lateral(none_of_two(col("n")).alias("x", "y")))
    show("lateral_on", t.left_outer_join_lateral(upto(col("n")).alias("x"), lit(True)))
    show("returned", t.flat_map(upto(col("n"))))
    show("lateral_where", t.join_lateral(upto(col("n")).alias("x")).where(col("x") == 1))
    show("nested", t.join_lateral(upto(total(col("n"), 1)).alias("x")).select(col("n"), col("x")))
    t_env.create_temporary_function("words_of", split)
    show("sql", t_env.sql_query(f"SELECT n, w FROM {t}, LATERAL TABLE(words_of(s)) AS x(w, l) WHERE l > 1"))
    show("sql_left", t_env.sql_query(f"SELECT n, w FROM {t} LEFT JOIN LATERAL TABLE(words_of(s)) AS x(w, l) ON TRUE"))


class WeightedMean(AggregateFunction):
    def create_accumulator(self):
        return Row(0, 0)

    def get_value(self, accumulator):
        return None if accumulator[1] == 0 else accumulator[0] / accumulator[1]

    def accumulate(self, accumulator, value, weight):
        accumulator[0] += value * weight
        accumulator[1] += weight

    def retract(self, accumulator, value, weight):
        accumulator[0] -= value * weight
        accumulator[1] -= weight

    def merge(self, accumulator, accumulators):
        for each in accumulators:
            accumulator[0] += each[0]
            accumulator[1] += each[1]

    def get_result_type(self):
        return DataTypes.DOUBLE()

    def get_accumulator_type(self):
        return DataTypes.ROW([DataTypes.FIELD("f0", DataTypes.BIGINT()), DataTypes.FIELD("f1", DataTypes.BIGINT())])


class Joined(AggregateFunction):
    def create_accumulator(self):
        return Row(ListView(), "")

    def get_value(self, accumulator):
        return accumulator[1].join(accumulator[0].get())

    def accumulate(self, accumulator, text, separator):
        accumulator[1] = separator
        accumulator[0].add(text)

    def get_accumulator_type(self):
        return DataTypes.ROW(
            [DataTypes.FIELD("f0", DataTypes.LIST_VIEW(DataTypes.STRING())), DataTypes.FIELD("f1", DataTypes.STRING())]
        )

    def get_result_type(self):
        return DataTypes.STRING()


class Seen(AggregateFunction):
    def create_accumulator(self):
        return Row(MapView(), 0)

    def get_value(self, accumulator):
        seen = accumulator[0]
        return Row(
            accumulator[1],
            ",".join(sorted(f"{key}{value}" for key, value in seen.items())),
            seen.contains("a"),
            sorted(seen.keys()),
            sorted(seen.values()),
        )

    def accumulate(self, accumulator, text):
        seen = accumulator[0]
        if text not in seen:
            seen[text] = 1
            accumulator[1] += 1
        else:
            seen.put(text, seen.get(text) + 1)

    def retract(self, accumulator, text):
        seen = accumulator[0]
        seen[text] -= 1
        if seen[text] == 0:
            seen.remove(text)
            accumulator[1] -= 1

    def get_accumulator_type(self):
        return DataTypes.ROW(
            [
                DataTypes.FIELD("f0", DataTypes.MAP_VIEW(DataTypes.STRING(), DataTypes.BIGINT())),
                DataTypes.FIELD("f1", DataTypes.BIGINT()),
            ]
        )

    def get_result_type(self):
        return DataTypes.ROW(
            [
                DataTypes.FIELD("n", DataTypes.BIGINT()),
                DataTypes.FIELD("s", DataTypes.STRING()),
                DataTypes.FIELD("has_a", DataTypes.BOOLEAN()),
                DataTypes.FIELD("k", DataTypes.ARRAY(DataTypes.STRING())),
                DataTypes.FIELD("v", DataTypes.ARRAY(DataTypes.BIGINT())),
            ]
        )


class Two(TableAggregateFunction):
    def create_accumulator(self):
        return [None, None]

    def accumulate(self, accumulator, row):
        value = row if isinstance(row, int) else row.n
        if accumulator[0] is None or value > accumulator[0]:
            accumulator[1] = accumulator[0]
            accumulator[0] = value
        elif accumulator[1] is None or value > accumulator[1]:
            accumulator[1] = value

    def emit_value(self, accumulator):
        for rank, each in enumerate(accumulator):
            if each is not None:
                yield Row(each, rank)

    def get_accumulator_type(self):
        return DataTypes.ARRAY(DataTypes.BIGINT())

    def get_result_type(self):
        return DataTypes.ROW([DataTypes.FIELD("v", DataTypes.BIGINT()), DataTypes.FIELD("rank", DataTypes.INT())])


class ListTwo(Two):
    def create_accumulator(self):
        return Row(ListView())

    def accumulate(self, accumulator, value):
        accumulator[0].add(value)

    def retract(self, accumulator, value):
        kept = list(accumulator[0].get())
        kept.remove(value)
        accumulator[0].clear()
        accumulator[0].add_all(kept)

    def emit_value(self, accumulator):
        for rank, each in enumerate(sorted(accumulator[0].get())[-2:]):
            yield each, rank

    def get_accumulator_type(self):
        return DataTypes.ROW([DataTypes.FIELD("f0", DataTypes.LIST_VIEW(DataTypes.BIGINT()))])


WORDS = [("a", 1, "x"), ("b", 5, "x"), ("a", 3, "y"), ("a", 2, "x"), ("b", 1, "y"), ("c", 9, "x")]


def aggregates(t_env):
    t = t_env.from_elements(WORDS, ["w", "n", "g"])
    mean = udaf(WeightedMean())
    grouped = t.group_by(col("g"))
    show("udaf", grouped.select(col("g"), mean(col("n"), lit(2)).alias("m"), col("n").sum.alias("s")))
    show("udaf_alone", t.select(mean(col("n"), col("n"))))
    show("list_view", grouped.select(col("g"), udaf(Joined())(col("w"), "+").alias("j")))
    show(
        "map_view",
        grouped.select(col("g"), udaf(Seen())(col("w")).alias("r")).select(
            col("g"), col("r").get("n"), col("r").get("s"), col("r").get("has_a"), col("r").get("k"), col("r").get("v")
        ),
    )
    last = t_env.sql_query(f"SELECT n % 2 AS k, LAST_VALUE(w) AS w, LAST_VALUE(n) AS n FROM {t} GROUP BY n % 2")
    show("retracting", last.select(mean(col("n"), lit(1)).alias("m")))
    show("map_view_retracting", last.select(udaf(Seen())(col("w")).alias("r")).select(col("r").get("s")))
    show("aggregate", grouped.aggregate(mean(col("n"), lit(1)).alias("m")).select(col("g"), col("m") + 1))
    show(
        "aggregate_two",
        grouped.aggregate(udaf(Seen())(col("w")).alias("a", "b", "c", "d", "e")).select(col("g"), col("a"), col("b")),
    )
    show("aggregate_alone", t.aggregate(mean(col("n"), lit(1)).alias("m")).select(col("m")))
    show(
        "flat_aggregate",
        grouped.flat_aggregate(udtaf(Two())(col("n")).alias("v", "r")).select(col("g"), col("v"), col("r")),
    )
    show("flat_aggregate_rows", grouped.flat_aggregate(udtaf(Two())).select(col("g"), col("v")))
    show("flat_aggregate_alone", t.flat_aggregate(udtaf(Two())(col("n")).alias("v", "r")).select(col("v"), col("r")))
    show(
        "flat_aggregate_retracting",
        last.flat_aggregate(udtaf(ListTwo())(col("n")).alias("v", "r")).select(col("v"), col("r")),
    )
    show(
        "flat_aggregate_star",
        grouped.flat_aggregate(udtaf(ListTwo())(col("n"))).select(col("g"), col("v"), col("rank")),
    )
    t_env.create_temporary_function("mean_of", mean)
    show("sql", t_env.sql_query(f"SELECT g, mean_of(n, 1) AS m FROM {t} GROUP BY g"))


@udaf(result_type=DataTypes.DOUBLE(), func_type="pandas")
def pandas_mean(series):
    return series.mean()


class Range(AggregateFunction):
    def create_accumulator(self):
        return []

    def accumulate(self, accumulator, series):
        accumulator.append(series.max() - series.min())

    def get_value(self, accumulator):
        return accumulator[0]

    def get_result_type(self):
        return DataTypes.BIGINT()


def of_pandas(t_env):
    t = t_env.from_elements(WORDS, ["w", "n", "g"])
    grouped = t.group_by(col("g"))
    show("pandas_group", grouped.select(col("g"), pandas_mean(col("n")).alias("m"), pandas_mean(col("n") + 1)))
    show("pandas_class", grouped.select(col("g"), udaf(Range(), func_type="pandas")(col("n"))))
    show("pandas_alone", t.select(pandas_mean(col("n"))))
    show(
        "pandas_row",
        grouped.aggregate(
            udaf(
                lambda f: Row(f.n.min(), f.n.max()),
                result_type=DataTypes.ROW(
                    [DataTypes.FIELD("low", DataTypes.BIGINT()), DataTypes.FIELD("high", DataTypes.BIGINT())]
                ),
                func_type="pandas",
            ).alias("low", "high")
        ).select(col("g"), col("low"), col("high")),
    )


def mapping(t_env):
    t = t_env.from_elements([(1, "a"), (2, "b")], ["n", "s"])
    show(
        "map_pandas",
        t.map(
            udf(
                lambda f: f.assign(n=f.n * 3)[["n", "s"]],
                result_type=DataTypes.ROW(
                    [DataTypes.FIELD("n", DataTypes.BIGINT()), DataTypes.FIELD("s", DataTypes.STRING())]
                ),
                func_type="pandas",
            )
        ),
    )


def main():
    scalars(environment(EnvironmentSettings.in_batch_mode()))
    tables(environment(EnvironmentSettings.in_batch_mode()))
    aggregates(environment(EnvironmentSettings.in_streaming_mode()))
    of_pandas(environment(EnvironmentSettings.in_batch_mode()))
    mapping(environment(EnvironmentSettings.in_batch_mode()))


if __name__ == "__main__":
    main()
