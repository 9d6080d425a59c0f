"""Paths into values of JSON, in the language of Jayway's JsonPath, which Flink's functions of JSON read.

A path is `lax` or `strict`, then steps: `.name`, `['name', …]`, `[place, …]` (from behind where it is negative),
`[from:to]`, `*`, `..` for all that is further in, `[?(condition)]`, and perhaps a function such as `.length()` at the
end. One that can lead to several values finds an array of them, also of none; but what comes before the first step
that can do so has to be there, unless the path is `lax`.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any

from msgspec import Struct

MISSING = object()
"""What a path finds where nothing is."""


class Step(Struct, frozen=True):
    """One step of a path."""

    leads_to: Callable[[Any, Any], Iterator[Any]]
    """Gives, of a value and of the root, the values that it leads to."""
    is_definite: bool = True
    """Whether it leads to one value at most."""
    leads_from: tuple[type, ...] = (object,)
    """What it can be applied to."""
    must_find: bool = False
    """Whether, in a path that is not lax, there has to be something for it."""


_MODE = re.compile(r"\s*(?:(?P<mode>lax|strict)\s+)?(?P<path>.*?)\s*", re.IGNORECASE | re.DOTALL)
_NAME = re.compile(r"[^\s.\[\]()*?'\",=<>!~&|]+")
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"", re.DOTALL)
_PLACES = re.compile(r"\s*(-?\d+)\s*(?:,\s*-?\d+\s*)*")
_SLICE = re.compile(r"\s*(-?\d*)\s*:\s*(-?\d*)\s*")
_FUNCTION = re.compile(r"\.(\w+)\(\s*\)")


class Path(Struct, frozen=True):
    """How to find values; see the module."""

    steps: tuple[Step, ...]
    is_definite: bool
    """Whether it leads to one value at most."""
    function: Callable[[Any], Any] | None
    is_lax: bool = False

    def find(self, value: Any, root: Any) -> Any:
        """What is there; MISSING where it leads nowhere."""
        found = [value]
        is_one = not self.is_lax
        for step in self.steps:
            if is_one and not isinstance(found[0], step.leads_from):
                return MISSING
            found = [one for each in found for one in step.leads_to(each, root)]
            if is_one and step.must_find and not found:
                return MISSING
            is_one = is_one and step.is_definite and bool(found)
        if self.function is not None:
            if self.steps and self.steps[0].leads_to is _further_in:
                return self.function(found)  # which is what such a path is about, by a rule of its own
            found = [self.function(each) for each in found]
        if self.is_definite:
            return found[0] if found else MISSING
        return found


@lru_cache(maxsize=256)
def json_path(text: str) -> Path:
    """The path that a text is.

    Raises:
        ValueError: it is none.
    """
    found = _MODE.fullmatch(text)
    assert found is not None
    path = found["path"]
    if not path:
        raise ValueError(f"{text!r} is no path of JSON")
    reader = _Reader(path if path[0] in "$@" else f"$.{path}")
    try:
        read = reader.path(is_whole=True)
    except RecursionError:
        raise ValueError(f"{text!r} is no path of JSON: it is nested too deeply") from None
    return Path(read.steps, read.is_definite, read.function, (found["mode"] or "").lower() == "lax")


# -- steps -----------------------------------------------------------------------------------------------------------


def _of_names(names: tuple[str, ...], is_last: bool, value: Any, _root: Any) -> Iterator[Any]:
    """The values of these names; of several at the end of a path, an object of those that are there."""
    if isinstance(value, dict):
        there = {name: value[name] for name in names if name in value}
        yield from [there] if len(names) > 1 and is_last else there.values()


def _of_places(places: tuple[int, ...], value: Any, _root: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from (value[place] for place in places if -len(value) <= place < len(value))


def _of_slice(begin: int | None, end: int | None, value: Any, root: Any) -> Iterator[Any]:
    if not isinstance(value, list):
        return
    if begin is not None and end is not None:  # where only one counts from behind nothing is between them
        yield from _of_places(tuple(range(begin, min(end, len(value)))), value, root)
    else:
        yield from value[begin:end]


def _of_all(value: Any, _root: Any) -> Iterator[Any]:
    yield from value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _further_in(value: Any, root: Any) -> Iterator[Any]:
    """The value and all objects and arrays in it, from outside to inside."""
    if isinstance(value, dict | list):
        yield value
        for each in _of_all(value, root):
            yield from _further_in(each, root)


def _of_condition(condition: Callable[[Any, Any], bool], value: Any, root: Any) -> Iterator[Any]:
    """Elements of an array for which it holds; an object itself, if it holds for that."""
    candidates = value if isinstance(value, list) else [value] if isinstance(value, dict) else []
    yield from (each for each in candidates if condition(each, root))


# -- functions at the end --------------------------------------------------------------------------------------------


def _numbers(value: Any) -> list[float]:
    found = [float(each) for each in value if _is_number(each)] if isinstance(value, list) else []
    if not found:
        raise ValueError("there are no numbers")
    return found


def _members(value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise ValueError("there is no array, or an empty one")
    return value


def _length(value: Any) -> Any:
    return len(value) if isinstance(value, list | dict) else None


_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "length": _length,
    "size": _length,
    "keys": lambda value: list(value) if isinstance(value, dict) else None,
    "min": lambda value: min(_numbers(value)),
    "max": lambda value: max(_numbers(value)),
    "sum": lambda value: sum(_numbers(value)),
    "avg": lambda value: sum(_numbers(value)) / len(_numbers(value)),
    "first": lambda value: _members(value)[0],
    "last": lambda value: _members(value)[-1],
}


# -- conditions ------------------------------------------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _equals(left: Any, right: Any) -> bool:
    """A number equals a text that is written as it; what is not there equals nothing."""
    if _is_number(left) and isinstance(right, str):
        left, right = right, left
    if isinstance(left, str) and _is_number(right):
        return left == str(right)
    if _is_number(left):
        return _is_number(right) and bool(left == right)
    return left is not MISSING and type(left) is type(right) and bool(left == right)


def _ordered(compare: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    comparable = (_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str))
    return comparable and compare(left, right)


def _is_in(left: Any, right: Any) -> bool:
    return isinstance(right, list) and any(_equals(left, each) for each in right)


def _is_like(left: Any, right: Any) -> bool:
    return isinstance(left, str) and isinstance(right, re.Pattern) and right.fullmatch(left) is not None


def _has_size(left: Any, right: Any) -> bool:
    return isinstance(left, list | str) and _equals(len(left), right)


def _is_empty(left: Any, right: Any) -> bool:
    return isinstance(left, list | dict | str) and (not left) is right


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": _equals,
    "!=": lambda left, right: not _equals(left, right),
    "<=": partial(_ordered, operator.le),
    ">=": partial(_ordered, operator.ge),
    "<": partial(_ordered, operator.lt),
    ">": partial(_ordered, operator.gt),
    "=~": _is_like,
    "in": _is_in,
    "nin": lambda left, right: not _is_in(left, right),
    "subsetof": lambda left, right: isinstance(left, list) and all(_is_in(each, right) for each in left),
    "anyof": lambda left, right: isinstance(left, list) and any(_is_in(each, right) for each in left),
    "noneof": lambda left, right: isinstance(left, list) and not any(_is_in(each, right) for each in left),
    "size": _has_size,
    "empty": _is_empty,
}
_COMPARISON = re.compile(r"\s*(==|!=|<=|>=|=~|<|>|(?:in|nin|subsetof|anyof|noneof|size|empty)\b)\s*", re.IGNORECASE)
_REGEX = re.compile(r"/((?:[^/\\]|\\.)*)/([a-zA-Z]*)")
_LITERALS = json.JSONDecoder(parse_float=Decimal)
_SINGLE_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)

Condition = Callable[[Any, Any], bool]


class _Reader:
    """Reads a path, and the conditions in it, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def path(self, is_whole: bool) -> Path:
        """The path from here on, which begins with `$` or `@`, to its end or that of the text."""
        self._at += 1
        steps: list[Step] = []
        function = None
        while self._at < len(self._text) and self._text[self._at] in ".[":
            called = self._match(_FUNCTION)
            if called is not None:
                function = _FUNCTIONS.get(called[1])
                if function is None:
                    raise self._wrong(f"there is no function {called[1]!r}")
                break
            steps += self._step()
        if is_whole and self._at < len(self._text):
            raise self._wrong("it cannot be read from there on")
        return Path(tuple(steps), all(step.is_definite for step in steps), function)

    def _step(self) -> list[Step]:
        before = [Step(_further_in, is_definite=False)] if self._take("..") else []
        if not before:
            self._take(".")
        return [*before, self._bracket() if self._take("[") else self._named()]

    def _named(self) -> Step:
        if self._take("*"):
            return Step(_of_all, is_definite=False)
        name = self._match(_NAME)
        if name is None:
            raise self._wrong("a name is missing")
        return Step(partial(_of_names, (name[0],), True), leads_from=(dict,), must_find=True)

    def _bracket(self) -> Step:
        self._skip()
        if self._take("?"):
            condition = self._condition_in_parentheses()
            self._close("]")
            return Step(partial(_of_condition, condition), is_definite=False, leads_from=(dict, list))
        if self._take("*"):
            self._close("]")
            return Step(_of_all, is_definite=False)
        if (piece := self._match(_SLICE)) is not None and any(piece.groups()):
            self._close("]")
            bounds = (int(each) if each else None for each in piece.groups())
            return Step(partial(_of_slice, *bounds), is_definite=False, leads_from=(list,))
        if (places := self._match(_PLACES)) is not None:
            self._close("]")
            numbers = tuple(map(int, places[0].split(",")))
            return Step(partial(_of_places, numbers), is_definite=len(numbers) == 1, leads_from=(list,))
        return self._quoted_names()

    def _quoted_names(self) -> Step:
        names = []
        while (quoted := self._match(_QUOTED)) is not None:
            names.append(re.sub(r"\\(.)", r"\1", quoted[1] if quoted[1] is not None else quoted[2]))
            self._skip()
            if not self._take(","):
                break
            self._skip()
        if not names:
            raise self._wrong("a name, a place or a condition is missing")
        self._close("]")
        is_last = self._at >= len(self._text) or self._text[self._at] not in ".["
        is_one = len(names) == 1
        return Step(partial(_of_names, tuple(names), is_last), is_one or is_last, leads_from=(dict,), must_find=is_one)

    # -- conditions

    def _condition_in_parentheses(self) -> Condition:
        self._close("(")
        condition = self._alternatives()
        self._close(")")
        return condition

    def _alternatives(self) -> Condition:
        parts = [self._conjunction()]
        while self._take("||"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else lambda value, root: any(part(value, root) for part in parts)

    def _conjunction(self) -> Condition:
        parts = [self._term()]
        while self._take("&&"):
            parts.append(self._term())
        return parts[0] if len(parts) == 1 else lambda value, root: all(part(value, root) for part in parts)

    def _term(self) -> Condition:
        self._skip()
        if self._take("!"):
            denied = self._term()
            return lambda value, root: not denied(value, root)
        if self._text[self._at : self._at + 1] == "(":
            condition = self._condition_in_parentheses()
            self._skip()
            return condition
        left = self._operand()
        found = self._match(_COMPARISON)
        if found is None:
            self._skip()
            return lambda value, root: left(value, root) is not MISSING
        compare, right = _COMPARISONS[found[1].lower()], self._operand()
        self._skip()
        return lambda value, root: compare(left(value, root), right(value, root))

    def _operand(self) -> Callable[[Any, Any], Any]:
        self._skip()
        first = self._text[self._at : self._at + 1]
        if first in ("@", "$"):
            path = self.path(is_whole=False)
            return lambda value, root: path.find(value if first == "@" else root, root)
        literal = self._literal(first)
        return lambda _value, _root: literal

    def _literal(self, first: str) -> Any:
        if first == "/" and (regex := self._match(_REGEX)) is not None:
            flags = sum(getattr(re, each.upper()) for each in set(regex[2]) & set("ims"))
            try:
                return re.compile(regex[1], flags)
            except re.error as error:
                raise ValueError(f"{self._text!r} is no path of JSON: /{regex[1]}/: {error}") from None
        if first == "'" and (quoted := self._match(_QUOTED)) is not None:
            return re.sub(r"\\(.)", r"\1", quoted[1])
        if first == "[":  # whose texts may be in single quotes
            end = self._text.find("]", self._at) + 1
            items = _SINGLE_QUOTED.sub(lambda each: json.dumps(each[1]), self._text[self._at : end])
            self._at = end
            return _LITERALS.decode(items)
        literal, self._at = _LITERALS.raw_decode(self._text, self._at)
        return literal

    # -- characters

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _take(self, word: str) -> bool:
        is_there = self._text.startswith(word, self._at)
        self._at += len(word) * is_there
        return is_there

    def _skip(self) -> None:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1

    def _close(self, bracket: str) -> None:
        self._skip()
        if not self._take(bracket):
            raise self._wrong(f"{bracket!r} is missing")

    def _wrong(self, what: str) -> ValueError:
        return ValueError(f"{self._text!r} is no path of JSON: {what}, at {self._text[self._at :]!r}")
