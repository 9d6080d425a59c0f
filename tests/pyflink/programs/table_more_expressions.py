import datetime
from decimal import Decimal

from flinkray.pyflink.common import Row
from flinkray.pyflink.table import DataTypes, EnvironmentSettings, TableEnvironment
from flinkray.pyflink.table import expressions as ex
from flinkray.pyflink.table.expression import (
    JsonExistsOnError,
    JsonQueryOnEmptyOrError,
    JsonQueryWrapper,
    JsonValueOnEmptyOrError,
    TimeIntervalUnit,
    TimePointUnit,
)
from flinkray.pyflink.table.expressions import call, col, lit

ROWS = DataTypes.ROW(
    [
        DataTypes.FIELD("n", DataTypes.INT()),
        DataTypes.FIELD("small", DataTypes.TINYINT()),
        DataTypes.FIELD("f", DataTypes.FLOAT()),
        DataTypes.FIELD("x", DataTypes.DOUBLE()),
        DataTypes.FIELD("s", DataTypes.STRING()),
        DataTypes.FIELD("no", DataTypes.BOOLEAN()),
        DataTypes.FIELD("d", DataTypes.DATE()),
        DataTypes.FIELD("t", DataTypes.TIME()),
        DataTypes.FIELD("at", DataTypes.TIMESTAMP(3)),
        DataTypes.FIELD("money", DataTypes.DECIMAL(8, 2)),
        DataTypes.FIELD("many", DataTypes.ARRAY(DataTypes.INT())),
        DataTypes.FIELD("words", DataTypes.ARRAY(DataTypes.STRING())),
        DataTypes.FIELD("pairs", DataTypes.MAP(DataTypes.STRING(), DataTypes.INT())),
        DataTypes.FIELD(
            "place", DataTypes.ROW([DataTypes.FIELD("x", DataTypes.INT()), DataTypes.FIELD("name", DataTypes.STRING())])
        ),
        DataTypes.FIELD("json", DataTypes.STRING()),
        DataTypes.FIELD("none", DataTypes.INT()),
        DataTypes.FIELD("nothing", DataTypes.STRING()),
        DataTypes.FIELD("raw", DataTypes.BYTES()),
    ]
)
VALUES = [
    (
        7, 3, 1.5, 0.5, "Tea Time", False,
        datetime.date(2024, 2, 29), datetime.time(13, 45, 6), datetime.datetime(2024, 2, 29, 13, 45, 6, 789000),
        Decimal("12.50"), [3, 1, 2, 3, None], ["b", "a", "c"], {"a": 1, "b": 2}, Row(5, "here"),
        '{"a": {"b": 7}, "c": [1, 2], "n": null, "s": "x"}', None, None, bytearray(b"\x01\xff"),
    )
]  # fmt: skip

n, small, f, x, s, no, d, t, at, money, many, words, pairs, place, json, none, nothing, raw = (
    col(field.name) for field in ROWS
)

CASES = {
    "acos": x.acos.round(6), "asin": x.asin.round(6), "atan": x.atan.round(6), "cos": x.cos.round(6),
    "cosh": x.cosh.round(6), "cot": x.cot.round(6), "sinh": x.sinh.round(6), "tan": x.tan.round(6),
    "tanh": x.tanh.round(6), "radians": lit(180.0).radians.round(6),
    "array_intersect": many.array_intersect(ex.array(3, 4)), "array_min": many.array_min(),
    "concat_none": ex.concat("a", nothing), "concat": ex.concat("a", s),
    "concat_ws_none": ex.concat_ws("-", "a", nothing, "b"), "json_quote": s.json_quote(),
    "json_unquote": lit('"a\\nb"').json_unquote(), "map_entries": pairs.map_entries,
    "regexp_extract_all": s.regexp_extract_all("T(.)", 1), "regexp_instr": s.regexp_instr("im"),
    "regexp_substr": s.regexp_substr("[A-Z]i"), "sha1": s.sha1, "sha224": s.sha224, "sha384": s.sha384,
    "sha512": s.sha512, "null_of": ex.null_of(DataTypes.INT()),
    "null_array": ex.null_of(DataTypes.ARRAY(DataTypes.STRING())),
    "null_row": ex.null_of(DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT())])),
    "json_value_default": json.json_value("$.zz", DataTypes.INT(), JsonValueOnEmptyOrError.DEFAULT, 5,
    JsonValueOnEmptyOrError.NULL, None),
    "json_value_null": json.json_value("$.n"), "json_value_object": json.json_value("$.a"),
    "json_value_bool": lit('{"a": true}').json_value("$.a", DataTypes.BOOLEAN()),
    "json_value_double": lit('{"a": 1.25}').json_value("$.a", DataTypes.DOUBLE()),
    "json_query_wrapped": json.json_query("$.a.b", JsonQueryWrapper.CONDITIONAL_ARRAY),
    "json_query_always": json.json_query("$.c", JsonQueryWrapper.UNCONDITIONAL_ARRAY),
    "json_query_empty": json.json_query("$.zz", JsonQueryWrapper.WITHOUT_ARRAY,
    JsonQueryOnEmptyOrError.EMPTY_OBJECT, JsonQueryOnEmptyOrError.EMPTY_ARRAY),
    "json_exists": json.json_exists("$.a.b"),
    "json_exists_error": lit("x{").json_exists("$.a", JsonExistsOnError.TRUE),
    "json_string_row": ex.json_string(place), "json_string_array": ex.json_string(many),
    "json_string_map": ex.json_string(pairs), "json_string_ts": ex.json_string(at),
    "json_string_dec": ex.json_string(money), "json_string_bytes": ex.json_string(raw),
    "from_unixtime": ex.from_unixtime(0), "from_unixtime_format": ex.from_unixtime(86400, "yyyy/MM/dd"),
    "unix_timestamp": ex.unix_timestamp("1970-01-02 00:00:00"),
    "unix_timestamp_format": ex.unix_timestamp("1970/01/03", "yyyy/MM/dd"), "year": d + lit(1).year,
    "years": d - lit(2).years, "quarter": d + lit(1).quarter, "quarters": d + lit(2).quarters,
    "months": d + lit(2).months, "week": d + lit(1).week, "weeks": d - lit(2).weeks, "day": at + lit(1).day,
    "hour": t + lit(1).hour, "minute": t - lit(50).minute, "minutes": at + lit(20).minutes,
    "second": at + lit(1).second, "seconds": t + lit(9).seconds, "milli": at + lit(1).milli,
    "interval_text": lit(1).month.cast(DataTypes.STRING()),
    "interval_text2": lit(90).minutes.cast(DataTypes.STRING()),
    "extract_quarter": d.extract(TimeIntervalUnit.QUARTER), "extract_week": d.extract(TimeIntervalUnit.WEEK),
    "extract_month": at.extract(TimeIntervalUnit.MONTH), "extract_day": at.extract(TimeIntervalUnit.DAY),
    "extract_minute": t.extract(TimeIntervalUnit.MINUTE), "extract_second": at.extract(TimeIntervalUnit.SECOND),
    "floor_year": d.floor(TimeIntervalUnit.YEAR), "floor_month": at.floor(TimeIntervalUnit.MONTH),
    "ceil_month": d.ceil(TimeIntervalUnit.MONTH), "floor_minute": t.floor(TimeIntervalUnit.MINUTE),
    "ceil_minute": t.ceil(TimeIntervalUnit.MINUTE), "floor_second": at.floor(TimeIntervalUnit.SECOND),
    "floor_week": d.floor(TimeIntervalUnit.WEEK), "floor_quarter": at.floor(TimeIntervalUnit.QUARTER),
    "diff_month": ex.timestamp_diff(TimePointUnit.MONTH, lit("2023-12-30").to_date, d),
    "diff_hour": ex.timestamp_diff(TimePointUnit.HOUR, at, lit("2024-03-01 00:00:00").to_timestamp),
    "diff_second": ex.timestamp_diff(TimePointUnit.SECOND, d, at), "between_text": s.between("A", "Z"),
    "in_text": s.in_("Tea Time", "x"), "not_in": ~n.in_(1, 2),
    "range_dates": d.between(lit("2024-01-01").to_date, lit("2024-12-31").to_date),
    "cast_small": lit(300).cast(DataTypes.SMALLINT()), "cast_float_text": f.cast(DataTypes.STRING()),
    "cast_double_text": (x / 3).cast(DataTypes.STRING()), "cast_bool_text": no.cast(DataTypes.STRING()),
    "cast_date_text": d.cast(DataTypes.STRING()), "cast_at_text": at.cast(DataTypes.STRING()),
    "cast_time_text": t.cast(DataTypes.STRING()), "cast_array_text": many.cast(DataTypes.STRING()),
    "cast_map_text": pairs.cast(DataTypes.STRING()), "cast_row_text": place.cast(DataTypes.STRING()),
    "cast_money_text": money.cast(DataTypes.STRING()), "cast_money_int": money.cast(DataTypes.INT()),
    "cast_text_money": lit("3.456").cast(DataTypes.DECIMAL(5, 1)),
    "cast_text_date": lit("2024-05-06").cast(DataTypes.DATE()),
    "cast_text_ts": lit("2024-05-06 07:08:09.123").cast(DataTypes.TIMESTAMP(3)),
    "cast_text_bool": lit("true").cast(DataTypes.BOOLEAN()), "cast_ts_date": at.cast(DataTypes.DATE()),
    "cast_ts_time": at.cast(DataTypes.TIME()), "cast_date_ts": d.cast(DataTypes.TIMESTAMP(3)),
    "cast_char": s.cast(DataTypes.CHAR(3)), "cast_char_pad": lit("a").cast(DataTypes.CHAR(3)),
    "cast_varchar": s.cast(DataTypes.VARCHAR(2)), "cast_binary": s.cast(DataTypes.BYTES()),
    "cast_row": place.cast(DataTypes.ROW([DataTypes.FIELD("a", DataTypes.BIGINT()), DataTypes.FIELD("b",
    DataTypes.STRING())])),
    "cast_map": pairs.cast(DataTypes.MAP(DataTypes.STRING(), DataTypes.BIGINT())),
    "cast_multi": x.cast(DataTypes.DECIMAL(4, 2)), "cast_int_bool": n.cast(DataTypes.BOOLEAN()),
    "cast_bool_int": no.cast(DataTypes.INT()), "try_cast_date": s.try_cast(DataTypes.DATE()),
    "try_cast_good": lit("12").try_cast(DataTypes.INT()), "cast_null": none.cast(DataTypes.STRING()),
    "row": ex.row(1, "a", 2.5), "row_nested": ex.row(ex.row(1, 2), ex.array("a")), "array_mixed": ex.array(1, 2.5),
    "array_of_rows": ex.array(ex.row(1, "a"), ex.row(2, "b")), "map_of_arrays": ex.map_("a", ex.array(1, 2)),
    "get_row": ex.row(1, "a").get(1), "at_none": many.at(9), "map_none": pairs.at("zz"),
    "if_text": ex.if_then_else(n > 5, "big", "small"), "if_mixed": ex.if_then_else(no, 1, 2.5),
    "if_null_cond": ex.if_then_else(none > 1, "a", "b"), "then_nested": (n > 9).then("a", (n > 5).then("b", "c")),
    "plus_small": small + 1, "small_times": small * small, "div_int": n / small, "div_money": money / 3,
    "money_plus": money + 1, "money_times": money * money, "mod_money": money % 5, "float_plus": f + 1,
    "float_money": x + money, "text_plus": s + "!", "plus_text": "<" + s, "text_number": s + n,
    "null_plus": none + 1, "null_and": (none > 1) & no, "null_or": (none > 1) | no, "is_null_text": nothing.is_null,
    "null_equal": none == 1, "null_is_true": (none > 1).is_true, "null_is_not_false": (none > 1).is_not_false,
    "lit_float": lit(1.5), "lit_bool": lit(True), "lit_none": lit(None, DataTypes.STRING()),
    "lit_big": lit(1 << 40), "lit_empty": lit(""), "call_upper": call("UPPER", s),
    "call_sql": ex.call_sql("CASE WHEN n > 5 THEN 'x' ELSE s END"), "call_mod": call("MOD", n, 4),
    "position_none": lit("z").position(s), "substring_far": s.substring(20), "substring_neg": s.substring(-4),
    "lpad_cut": s.lpad(3, "-"), "left_zero": s.left(0), "repeat_zero": s.repeat(0),
    "trim_both": lit("xax").trim("x"), "log_n": lit(100.0).log(10.0).round(6), "power_int": n ** 2,
    "round_int": n.round(0), "round_neg": lit(1234).round(-2), "floor_neg": lit(-1.5).floor(),
    "ceil_money": money.ceil(), "floor_money": money.floor(), "abs_money": (-money).abs, "sign_int": (-n).sign,
    "mod_neg": (-n) % 4, "trunc_int": lit(1234.567).truncate(), "hex_int": n.hex, "bin_neg": lit(-1).bin,
    "element_null": ex.array(ex.null_of(DataTypes.INT())).element,
    "date_format_text": ex.date_format("2024-01-02 03:04:05", "HH:mm"),
    "to_timestamp_format": ex.to_timestamp("02.01.2024 03", "dd.MM.yyyy HH"),
    "to_date_format": ex.to_date("02.01.2024", "dd.MM.yyyy"), "split_index_far": s.split_index(" ", 9),
    "str_to_map2": lit("a:1;b:2").str_to_map(";", ":"), "coalesce_text": ex.coalesce(nothing, s),
    "overlay2": s.overlay("XX", 3), "encode": s.encode("utf-16be"), "is_json_scalar": lit("1").is_json(),
    "sha2_none": nothing.sha2(256), "parse_host": lit("http://u@a.b:80/c?d=e#f").parse_url("HOST"),
    "array_contains_null": many.array_contains(ex.null_of(DataTypes.INT())), "current": ex.current_date() >= d,
}  # fmt: skip


def plain(value):
    if isinstance(value, bytearray):
        return bytes(value)
    return [*map(plain, value)] if isinstance(value, Row | list) else value


def main():
    t_env = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    t_env.get_config().set("parallelism.default", "1")
    t_env.get_config().set_local_timezone("UTC")
    table = t_env.from_elements(VALUES, ROWS)
    with table.select(*(each.alias(name) for name, each in CASES.items())).execute().collect() as rows:
        (row,) = rows
    for name, value in zip(CASES, row, strict=True):
        print(f"{name}: {plain(value)!r}")


if __name__ == "__main__":
    main()
