"""Which function of SQL each method of an expression is, where it is not the one of its name in capitals."""

from __future__ import annotations

SQL_NAMES = {
    "array_agg": "ARRAY_AGG",
    "ends_with": "ENDSWITH",
    "if_null": "IFNULL",
    "init_cap": "INITCAP",
    "list_agg": "LISTAGG",
    "lower_case": "LOWER",
    "starts_with": "STARTSWITH",
    "substring": "SUBSTRING",
    "upper_case": "UPPER",
}
"""Method -> function, whose first argument is the expression."""

WITHOUT_ARGUMENTS = frozenset(
    [
        "exp",
        "log10",
        "log2",
        "ln",
        "cosh",
        "sinh",
        "sin",
        "cos",
        "tan",
        "cot",
        "asin",
        "acos",
        "atan",
        "tanh",
        "degrees",
        "radians",
        "sqrt",
        "abs",
        "sign",
        "sum",
        "min",
        "max",
        "count",
        "avg",
        "first_value",
        "last_value",
        "stddev_pop",
        "stddev_samp",
        "var_pop",
        "var_samp",
        "collect",
        "array_agg",
        "bin",
        "hex",
        "unhex",
        "char_length",
        "upper_case",
        "lower_case",
        "init_cap",
        "from_base64",
        "to_base64",
        "ascii",
        "chr",
        "reverse",
        "cardinality",
        "element",
        "map_keys",
        "map_values",
        "map_entries",
        "md5",
        "sha1",
        "sha224",
        "sha256",
        "sha384",
        "sha512",
        "start",
        "end",
        "rowtime",
        "proctime",
    ]
)
"""Methods that PyFlink calls without parentheses. Here they may have them too."""

CASTS = {"to_date": "DATE", "to_time": "TIME(0)", "to_timestamp": "TIMESTAMP(3)"}
"""Properties that are casts."""

INTERVALS = {
    "year": "YEAR",
    "years": "YEAR",
    "quarter": "QUARTER",
    "quarters": "QUARTER",
    "month": "MONTH",
    "months": "MONTH",
    "week": "WEEK",
    "weeks": "WEEK",
    "day": "DAY",
    "days": "DAY",
    "hour": "HOUR",
    "hours": "HOUR",
    "minute": "MINUTE",
    "minutes": "MINUTE",
    "milli": "SECOND",
    "millis": "SECOND",
    "second": "SECOND",
    "seconds": "SECOND",
}
"""Properties that make a number an interval."""

TESTS = {
    "is_null": ("NULL", False),
    "is_not_null": ("NULL", True),
    "is_true": ("TRUE", False),
    "is_not_true": ("TRUE", True),
    "is_false": ("FALSE", False),
    "is_not_false": ("FALSE", True),
}
"""Properties that are `IS ...`."""
