import datetime
from decimal import Decimal

from flinkray.pyflink.common import Row
from flinkray.pyflink.table import DataTypes, EnvironmentSettings, TableEnvironment
from flinkray.pyflink.table import expressions as ex
from flinkray.pyflink.table.expression import JsonType, TimeIntervalUnit, TimePointUnit
from flinkray.pyflink.table.expressions import call, col, lit

ROWS = DataTypes.ROW(
    [
        DataTypes.FIELD("n", DataTypes.INT()),
        DataTypes.FIELD("big", DataTypes.BIGINT()),
        DataTypes.FIELD("x", DataTypes.DOUBLE()),
        DataTypes.FIELD("s", DataTypes.STRING()),
        DataTypes.FIELD("yes", DataTypes.BOOLEAN()),
        DataTypes.FIELD("d", DataTypes.DATE()),
        DataTypes.FIELD("at", DataTypes.TIMESTAMP(3)),
        DataTypes.FIELD("money", DataTypes.DECIMAL(8, 2)),
        DataTypes.FIELD("many", DataTypes.ARRAY(DataTypes.INT())),
        DataTypes.FIELD("pairs", DataTypes.MAP(DataTypes.STRING(), DataTypes.INT())),
        DataTypes.FIELD(
            "place",
            DataTypes.ROW([DataTypes.FIELD("x", DataTypes.INT()), DataTypes.FIELD("name", DataTypes.STRING())]),
        ),
        DataTypes.FIELD("json", DataTypes.STRING()),
        DataTypes.FIELD("none", DataTypes.INT()),
    ]
)
VALUES = [
    (
        7, 1 << 40, 2.5, "Tea Time", True,
        datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 13, 45, 6, 789000),
        Decimal("12.50"), [3, 1, 2], {"a": 1}, Row(5, "here"), '{"a": {"b": 7}, "c": [1, 2]}', None,
    )
]  # fmt: skip

n, big, x, s, yes, d, at, money, many, pairs, place, json, none = map(
    col, ["n", "big", "x", "s", "yes", "d", "at", "money", "many", "pairs", "place", "json", "none"]
)

CASES = {
    "plus": n + 1, "right_plus": 1 + n, "minus": n - big, "times": 2 * x, "divided": n / 2, "remainder": n % 4,
    "power": x ** 2, "negated": -n, "equal": n == 7, "unequal": n != 7, "less": n < 8, "at_least": n >= 8,
    "and": (n > 1) & yes, "or": (n < 1) | yes, "not": ~yes, "right_and": True & yes, "exp": lit(0.0).exp,
    "ln": lit(1.0).ln, "log": lit(8.0).log(2.0), "log2": lit(8.0).log2, "log10": lit(100).log10, "sqrt": lit(16).sqrt,
    "abs": (-n).abs, "floor": x.floor(), "ceil": x.ceil(), "sign": (-x).sign, "round": lit(2.456).round(1),
    "truncate": lit(42.345).truncate(2), "sin": lit(0.0).sin, "degrees": lit(0.0).degrees, "bin": n.bin, "hex": s.hex,
    "unhex": lit("4161").unhex, "pi": ex.pi().round(4), "e": ex.e().round(4), "is_null": none.is_null,
    "is_not_null": none.is_not_null, "is_true": yes.is_true, "is_false": yes.is_false, "is_not_true": yes.is_not_true,
    "is_not_false": yes.is_not_false, "if_null": none.if_null(5), "between": n.between(1, 7),
    "not_between": n.not_between(1, 7), "in": n.in_(1, 7), "then": (n > 1).then("x", "y"),
    "cast": n.cast(DataTypes.STRING()), "try_cast": s.try_cast(DataTypes.INT()), "substring": s.substring(5),
    "substring_of": s.substring(1, 3), "substr": s.substr(2, 2), "trim": lit(" a ").trim(),
    "trim_leading": lit("xxa").trim_leading("x"), "trim_trailing": lit("axx").trim_trailing("x"),
    "replace": s.replace("Tea", "Cake"), "char_length": s.char_length, "upper": s.upper_case, "lower": s.lower_case,
    "init_cap": s.lower_case.init_cap, "like": s.like("T%"), "like_escape": lit("a%").like("a\\%", "\\"),
    "similar": s.similar("[A-Z].*"), "position": lit("T").position(s), "lpad": lit("a").lpad(3, "-"),
    "rpad": lit("a").rpad(3, "-"), "overlay": s.overlay("Cup", 1, 3), "regexp": s.regexp("T.m"),
    "regexp_replace": s.regexp_replace("[aeiou]", "_"), "regexp_extract": s.regexp_extract("(T)(e)", 2),
    "from_base64": lit("YQ==").from_base64, "to_base64": lit("a").to_base64,
    "decode": lit("a").encode("utf-8").decode("utf-8"), "left": s.left(3), "right": s.right(4), "instr": s.instr("a"),
    "locate": lit("T").locate(s, 2), "split_index": s.split_index(" ", 1), "str_to_map": lit("a=1,b=2").str_to_map(),
    "ltrim": lit(" a").ltrim(), "rtrim": lit("a ").rtrim(), "repeat": lit("ab").repeat(2),
    "reverse": lit("ab").reverse, "parse_url": lit("http://a.b/c?d=e").parse_url("QUERY", "d"), "md5": s.md5,
    "sha256": s.sha256, "sha2": s.sha2(224), "starts_with": s.starts_with("Tea"), "ends_with": s.ends_with("x"),
    "concat_ws": ex.concat_ws("-", "a", s), "extract": d.extract(TimeIntervalUnit.YEAR),
    "extract_week": at.extract(TimeIntervalUnit.HOUR), "floor_time": at.floor(TimeIntervalUnit.HOUR),
    "ceil_time": at.ceil(TimeIntervalUnit.DAY), "to_date": lit("2024-01-02").to_date,
    "to_time": lit("03:04:05").to_time, "to_timestamp": lit("2024-01-02 03:04:05").to_timestamp,
    "date_format": ex.date_format(at, "yyyy/MM/dd HH"), "plus_day": d + lit(1).days, "minus_hours": at - lit(2).hours,
    "plus_month": d + lit(1).month, "plus_millis": at + lit(5).millis,
    "timestamp_diff": ex.timestamp_diff(TimePointUnit.DAY, lit("2024-01-02").to_date, d),
    "overlaps": ex.temporal_overlaps(lit("2:55:00").to_time, lit(1).hour, lit("3:30:00").to_time, lit(2).hours),
    "at": many.at(1), "map_at": pairs.at("a"), "cardinality": many.cardinality, "element": ex.array(9).element,
    "array": ex.array(1, 2, 3), "map": ex.map_("k", 1, "l", 2), "array_contains": many.array_contains(2),
    "array_position": many.array_position(2), "array_remove": many.array_remove(1),
    "array_union": many.array_union(ex.array(9)), "array_max": many.array_max(), "array_append": many.array_append(4),
    "map_keys": pairs.map_keys, "map_values": pairs.map_values,
    "map_from_arrays": ex.map_from_arrays(ex.array("k"), ex.array(1)), "get": place.get("name"),
    "get_by_place": place.get(0), "json_value": json.json_value("$.a.b", DataTypes.INT()),
    "json_value_text": json.json_value("$.a.b"), "json_query": json.json_query("$.c"),
    "json_exists": json.json_exists("$.x"), "is_json": json.is_json(),
    "is_json_object": json.is_json(JsonType.OBJECT), "json_string": ex.json_string(s),
    "coalesce": ex.coalesce(none, n), "if_then_else": ex.if_then_else(yes, 1, 2), "and_": ex.and_(yes, n > 1, n < 9),
    "or_": ex.or_(n > 9, yes), "not_": ex.not_(yes), "atan2": ex.atan2(0, 1), "negative": ex.negative(n),
    "call_sql": ex.call_sql("n * 2"), "call": call("GREATEST", n, 9),
    "convert_tz": ex.convert_tz("2024-01-02 03:04:05", "UTC", "Asia/Tokyo"), "lit_decimal": lit(Decimal("1.50")),
    "lit_text": lit("it's"), "decimal": money * 2, "bytes": lit(b"ab"), "coalesce_three": ex.coalesce(none, none, 3),
    "url_encode": lit("a b").url_encode(), "url_decode": lit("a%20b").url_decode(), "btrim": lit("xax").btrim("x"),
    "translate": s.translate("T", "D"), "elt": lit(2).elt("a", "b"), "split": s.split(" "),
    "percentile_less": n.cast(DataTypes.DOUBLE()) < 8,
    "timestamp_ltz_cast": ex.to_timestamp_ltz(5, 0).cast(DataTypes.TIMESTAMP(0)),
}  # fmt: skip


def main():
    t_env = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    t_env.get_config().set("parallelism.default", "1")
    table = t_env.from_elements(VALUES, ROWS)
    t_env.create_temporary_view("given", table)
    selected = table.select(*(each.alias(name) for name, each in CASES.items()))
    with selected.execute().collect() as rows:
        (row,) = rows
    for name, value in zip(CASES, row, strict=True):
        print(f"{name}: {bytes(value) if isinstance(value, bytearray) else value!r}")


if __name__ == "__main__":
    main()
