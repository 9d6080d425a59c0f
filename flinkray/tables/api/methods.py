"""Which function of SQL each method of an expression is, where it is not the one of its name in capitals, and how it is
called."""

from __future__ import annotations

import inspect

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

ARGUMENTS = {
    "array_append": "addition",
    "array_concat": "*arrays",
    "array_contains": "needle",
    "array_distinct": "",
    "array_except": "array",
    "array_intersect": "array",
    "array_join": "delimiter, null_replacement=",
    "array_max": "",
    "array_min": "",
    "array_position": "needle",
    "array_prepend": "addition",
    "array_remove": "needle",
    "array_reverse": "",
    "array_slice": "start_offset, end_offset=",
    "array_sort": "ascending_order=, null_first=",
    "array_union": "array",
    "btrim": "trim_str=",
    "concat": "other",
    "decode": "charset",
    "elt": "expr, *exprs",
    "encode": "charset",
    "ends_with": "end_expr",
    "if_null": "null_replacement",
    "instr": "s",
    "json_quote": "",
    "json_unquote": "",
    "left": "length",
    "list_agg": "separator=",
    "locate": "s, pos=",
    "lpad": "length, pad",
    "ltrim": "trim_str=",
    "map_union": "*maps",
    "overlay": "new_string, starting, length=",
    "parse_url": "part_to_extract, key=",
    "percentile": "percentage, frequency=",
    "position": "haystack=",
    "regexp": "regex",
    "regexp_count": "regex",
    "regexp_extract": "regex, extract_index=",
    "regexp_extract_all": "regex, extract_index=",
    "regexp_instr": "regex",
    "regexp_replace": "regex, replacement",
    "regexp_substr": "regex",
    "repeat": "n",
    "replace": "search=, replacement=",
    "right": "length",
    "round": "places",
    "rpad": "length, pad",
    "rtrim": "trim_str=",
    "sha2": "hash_length",
    "split": "delimiter",
    "split_index": "separator, index",
    "starts_with": "start_expr",
    "str_to_map": "list_delimiter=, key_value_delimiter=",
    "substr": "begin_index, length=",
    "substring": "begin_index, length=",
    "translate": "from_str, to_str",
    "truncate": "n=",
    "url_decode": "",
    "url_encode": "",
}
"""PyFlink's names of the arguments behind the expression, by method; of other functions they are called by position."""


def signature_of(arguments: str) -> inspect.Signature:
    """The signature of arguments such as `begin_index, length=, *others`; those that may be left out are None then."""
    parameters = []
    for text in filter(None, arguments.split(", ")):
        if text.startswith("*"):
            parameters.append(inspect.Parameter(text[1:], inspect.Parameter.VAR_POSITIONAL))
            continue
        default = None if text.endswith("=") else inspect.Parameter.empty
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(inspect.Parameter(text.removesuffix("="), kind, default=default))
    return inspect.Signature(parameters)
