"""LIKE, SIMILAR TO and regular expressions.

Regular expressions are Arrow's, which are RE2's: they read as Java's but for what RE2 refuses (looking around,
possessive quantifiers, references to groups); those are Python's, over the distinct values of the column.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from actors.operators.calc.values.evaluation import by_distinct, kept_where, plain

_TEXT = pa.string()
_GROUP = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\((?!\?)|\(\?<(?![=!])")
"""What begins a group that is counted, and what has parentheses that begin none."""


def _like(text: pa.Array, pattern: str, escape: str | None = None) -> pa.Array:
    if escape is None and "\\" not in pattern:
        return pc.match_like(text, pattern)
    return pc.match_substring_regex(text, f"(?s)^{_translated(pattern, escape, _LIKE)}$")


_CLASS = re.compile(r"\[:(\w+):\]")
_CLASSES = {
    "alpha": "a-zA-Z",
    "upper": "A-Z",
    "lower": "a-z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "space": " ",
    "whitespace": r"\s",
}


def _similar(text: pa.Array, pattern: str, escape: str | None = None) -> pa.Array:
    """A class within brackets, such as `[[:DIGIT:]]`, may be in capitals, as Java's would not."""
    pattern = _CLASS.sub(lambda found: _CLASSES.get(found[1].lower(), found[0]), pattern)
    return _matches(text, f"(?s)^(?:{_translated(pattern, escape, _SIMILAR)})$")


def _quote(character: str) -> str:
    return re.escape(character)


def _keep(character: str) -> str:
    return character


_LIKE: tuple[dict[str, str], Callable[[str], str]] = ({"%": ".*", "_": "."}, _quote)
_SIMILAR: tuple[dict[str, str], Callable[[str], str]] = ({"%": ".*", "_": "."}, _keep)


def _translated(pattern: str, escape: str | None, rules: tuple[dict[str, str], Callable[[str], str]]) -> str:
    """The pattern as a regular expression.

    Raises:
        ValueError: the escape character is not one character, or stands at the end.
    """
    wildcards, others = rules
    if escape is not None and len(escape) != 1:
        raise ValueError(f"ESCAPE takes one character, and not {escape!r}")
    parts, rest = [], iter(pattern)
    for character in rest:
        if character == escape:
            escaped = next(rest, None)
            if escaped is None:
                raise ValueError(f"the pattern {pattern!r} ends with its escape character")
            parts.append(re.escape(escaped))
        else:
            parts.append(wildcards.get(character) or others(character))
    return "".join(parts)


# -- regular expressions -------------------------------------------------------------------------------------------


_REFUSED = object()


def compiled(pattern: str) -> re.Pattern[str]:
    """Python's regular expression.

    Raises:
        ValueError: it is none.
    """
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from error


def _or_python(
    kernel: Callable[..., pa.Array],
    compute: Callable[..., object],
    arrow_type: pa.DataType,
    of_none: object = _REFUSED,
) -> Callable[..., pa.Array]:
    """Arrow's kernel, or Python's function where RE2 refuses the expression; `of_none` where it is no expression,
    which else is an error."""

    def run(text: pa.Array, pattern: str, *more: object) -> pa.Array:
        try:
            return kernel(text, pattern, *more)
        except pa.ArrowInvalid:
            try:
                regex = compiled(pattern)
            except ValueError:
                if of_none is _REFUSED:
                    raise
                return kept_where(text.is_valid(), pa.repeat(pa.scalar(of_none, arrow_type), len(text)))
            return by_distinct(lambda one: compute(regex, one, *more), arrow_type, text)

    return run


_matches = _or_python(pc.match_substring_regex, lambda regex, text: bool(regex.search(text)), pa.bool_())
_is_found = _or_python(
    pc.match_substring_regex, lambda regex, text: bool(regex.search(text)), pa.bool_(), of_none=False
)


def _regexp(text: pa.Array, pattern: str) -> pa.Array:
    """Whether a part of the text is of the expression; the empty one is found nowhere."""
    return _is_found(text, pattern) if pattern else pc.match_substring_regex(text, r"^\b\B")


def _replaced(text: pa.Array, pattern: str, replacement: str) -> pa.Array:
    """All occurrences replaced by the text itself: no `$1` in it is a group."""
    return pc.replace_substring_regex(text, pattern, replacement.replace("\\", r"\\"))


def _named(pattern: str) -> tuple[str, int]:
    """The expression with its groups named g1, g2 …, in a group g0 that is all of it, and how many there are."""
    count = 0

    def name(found: re.Match[str]) -> str:
        nonlocal count
        if found[0] not in ("(", "(?<"):
            return found[0]
        count += 1
        return f"(?P<g{count}>"

    named = _GROUP.sub(name, re.sub(r"\(\?<[A-Za-z]\w*>", "(", pattern))
    return f"(?P<g0>{named})", count


def _extracted(text: pa.Array, pattern: str, group: int = 0) -> pa.Array:
    named, count = _named(pattern)
    if not 0 <= group <= count:
        return pa.nulls(len(text), _TEXT)
    found = pc.extract_regex(text, named)
    return kept_where(found.is_valid(), found.field(group))


def _extract_in_python(regex: re.Pattern[str], text: str, group: int = 0) -> str | None:
    found = regex.search(text)
    return found[group] if found is not None and 0 <= group <= regex.groups else None


def _all(text: pa.Array, pattern: str, group: int = 1) -> pa.Array:
    """A group of each occurrence; Arrow has no kernel for it, so it is Python's, once for each distinct text."""
    try:
        regex = compiled(pattern)
    except ValueError:
        return pa.nulls(len(text), pa.list_(_TEXT))
    if not 0 <= group <= regex.groups:
        return pa.nulls(len(text), pa.list_(_TEXT))
    return by_distinct(lambda one: [found[group] for found in regex.finditer(one)], pa.list_(_TEXT), text)


def _instr(text: pa.Array, pattern: str) -> pa.Array:
    parts = pc.extract_regex(text, f"(?s)^(?P<head>.*?)(?:{pattern})")
    places = pc.add(pc.utf8_length(parts.field(0)), pa.scalar(1, pa.int32()))
    found = pc.if_else(parts.is_valid(), places, pa.scalar(0, pa.int32()))
    return kept_where(text.is_valid(), found)


def _place_in_python(regex: re.Pattern[str], text: str) -> int:
    found = regex.search(text)
    return 0 if found is None else found.start() + 1


PATTERN_KERNELS = {
    "LIKE": plain(_like, 1, 2),
    "SIMILAR TO": plain(_similar, 1, 2),
    "REGEXP": plain(_regexp, 1),
    "REGEXP_REPLACE": plain(
        _or_python(_replaced, lambda regex, text, new: regex.sub(lambda _: new, text), _TEXT), 1, 2
    ),
    "REGEXP_EXTRACT": plain(_or_python(_extracted, _extract_in_python, _TEXT, None), 1, 2),
    "REGEXP_EXTRACT_ALL": plain(_all, 1, 2),
    "REGEXP_COUNT": plain(
        _or_python(
            pc.count_substring_regex, lambda regex, text: sum(1 for _ in regex.finditer(text)), pa.int32(), None
        ),
        1,
    ),
    "REGEXP_INSTR": plain(_or_python(_instr, _place_in_python, pa.int32(), None), 1),
    "REGEXP_SUBSTR": plain(_or_python(_extracted, _extract_in_python, _TEXT, None), 1),
}
