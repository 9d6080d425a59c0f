"""Timestamps as texts, by Java's patterns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.operators.calc.values import calendar
from actors.operators.calc.values.calendar import Numbers
from actors.operators.calc.values.evaluation import nulls_where
from actors.operators.calc.values.time_texts import DAYS, MONTHS, tokens

_ERAS = ("Anno Domini", "Before Christ")
_QUARTERS = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")
_KINDS = {**dict.fromkeys("Sn", "fraction"), **dict.fromkeys("HkKhmsaB", "clock"), **dict.fromkeys("AN", "time")}
_ZONE_LETTERS = frozenset("ZX")
_PERIODS = (
    *("midnight", "noon", "at night", "in the morning"),
    *("in the afternoon", "in the evening", "at night"),
)
_PERIOD_HOURS = (6, 12, 18, 21)
"""The hours at which a period of the day becomes the next; the first one, from midnight on, is at night."""


def written_by(times: pa.Array, pattern: str, offsets: Numbers | None = None, *, is_simple: bool = False) -> pa.Array:
    """Timestamps as texts of this pattern. Days, times of day and fractions are written once for each that there is.

    Args:
        offsets: seconds that the zone of the timestamps is before UTC.
        is_simple: the pattern is one of SimpleDateFormat, not of DateTimeFormatter.
    """
    days, rest, scale = calendar.split(times)
    nanos = 10**9 // scale
    numbers = {"clock": rest // scale, "fraction": rest % scale * nanos, "time": rest * nanos, "date": days}
    if offsets is not None:
        numbers["zone"] = offsets
    parts = []
    for kind, found in _runs(tokens(pattern, is_simple)):
        if kind == "literal":
            parts.append(pa.scalar("".join(text for text, _ in found)))
        elif kind not in numbers:
            raise ValueError(f"the letter {found[0][0]!r} of a pattern needs a time in a zone")
        else:
            parts.append(_of_each(numbers[kind], found, _NUMBERS[kind], is_simple))
    texts = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "") if parts else pa.scalar("")
    texts = pa.repeat(texts, len(times)) if isinstance(texts, pa.Scalar) else texts
    return nulls_where(times.is_null(), texts) if times.null_count else texts


def _of_each(
    numbers: Numbers,
    pattern: tuple[tuple[str, int], ...],
    parts_of: Callable[[Numbers], dict[str, Numbers]],
    is_simple: bool,
) -> pa.Array | pa.Scalar:
    """The text of each number, which is written once; one for all where they are the same."""
    if len(numbers) and (numbers == numbers[0]).all():
        return _written(pattern, parts_of(numbers[:1]), is_simple)[0]
    distinct = pa.array(numbers).dictionary_encode()
    return _written(pattern, parts_of(distinct.dictionary.to_numpy()), is_simple).take(distinct.indices)


def _runs(pattern: tuple[tuple[str, int], ...]) -> list[tuple[str, tuple[tuple[str, int], ...]]]:
    """The pattern cut where it goes from days to times of day or fractions; texts belong to what is before them."""
    runs: list[tuple[str, tuple[tuple[str, int], ...]]] = []
    for (letter, count), (following, _) in zip(pattern, (*pattern, ("", 0))[1:], strict=True):
        if count < 0:  # what may be missing of a text that is read is always written
            continue
        filled = following if letter == "p" else letter
        kind = "zone" if filled in _ZONE_LETTERS else _KINDS.get(filled, "date")
        if not count:
            kind = runs[-1][0] if runs else "literal"
        if runs and runs[-1][0] == kind:
            runs[-1] = (kind, (*runs[-1][1], (letter, count)))
        else:
            runs.append((kind, ((letter, count),)))
    return runs


def _date_numbers(days: Numbers) -> dict[str, Numbers]:
    month = calendar.month_of(days) % 12
    day_of_year, weekday, year = calendar.day_of_year(days), (days + 4) % 7, calendar.year_of(days)
    day = days - calendar.first_day(calendar.month_of(days)) + 1
    saturday = days - weekday + 6  # the week that a year begins in is its first
    return {
        "y": np.where(year > 0, year, 1 - year),  # that of the era
        "u": year,
        "M": month + 1,
        "L": month + 1,
        "d": day,
        "D": day_of_year,
        "Q": month // 3 + 1,
        "q": month // 3 + 1,
        "e": weekday + 1,
        "c": weekday + 1,
        "E": weekday + 1,
        "w": (calendar.day_of_year(saturday) - 1) // 7 + 1,
        "W": (day + 5 - weekday) // 7 + 1,
        "F": day,
        "Y": calendar.year_of(saturday),
        "G": (year <= 0) + 1,
        "g": days + 40_587,
    }


def _clock_numbers(seconds: Numbers) -> dict[str, Numbers]:
    hour = seconds // 3_600
    return {
        "H": hour,
        "k": (hour + 23) % 24 + 1,
        "K": hour % 12,
        "h": (hour + 11) % 12 + 1,
        "m": seconds // 60 % 60,
        "s": seconds % 60,
        "a": hour // 12,
        "B": np.where(seconds // 60 % 720 == 0, hour // 12, np.searchsorted(_PERIOD_HOURS, hour, "right") + 2),
    }


_NUMBERS: dict[str, Callable[[Numbers], dict[str, Numbers]]] = {
    "date": _date_numbers,
    "clock": _clock_numbers,
    "fraction": lambda nanos: {"S": nanos, "n": nanos},
    "time": lambda nanos: {"A": nanos // 10**6, "N": nanos},
    "zone": lambda offsets: dict.fromkeys("ZX", offsets),
}
_NAMES = {"M": MONTHS, "L": MONTHS, "E": DAYS, "e": DAYS, "c": DAYS, "Q": _QUARTERS, "q": _QUARTERS, "G": _ERAS}


def _written(pattern: tuple[tuple[str, int], ...], numbers: dict[str, Numbers], is_simple: bool) -> pa.Array:
    """Letters of one kind as texts, one for each of the numbers that belong to them."""
    parts: list[pa.Array | pa.Scalar] = []
    width = 0
    for letter, count in pattern:
        if width:
            parts.append(_filled(_written(((letter, count),), numbers, is_simple), width))
            width = 0
            continue
        if not count:
            parts.append(pa.scalar(letter))
            continue
        if letter == "p":
            width = count
            continue
        if letter not in numbers:
            raise ValueError(f"the letter {letter!r} of a pattern is not known; a text in it stands in '…'")
        values = numbers[letter]
        if letter == "a":
            parts.append(pa.array(["AM", "PM"]).take(pa.array(values)))
        elif letter == "B":
            names = _PERIODS if count < 5 else ("mi", "n", *_PERIODS[2:])
            parts.append(pa.array(names).take(pa.array(values)))
        elif letter in "ZX":
            parts.append(_zone(values, letter, count))
        elif letter in _NAMES and (count > 2 or letter in "EG"):
            parts.append(pa.array(_names(letter, count, is_simple)).take(pa.array(values - 1)))
        elif is_simple and letter == "S":
            parts.append(_padded(values // 10**6, count))
        elif letter == "S":
            parts.append(pc.utf8_slice_codeunits(_padded(values, 9), 0, count))
        elif is_simple and letter == "u":  # the day of the week, where Monday is the first
            parts.append(_padded((numbers["e"] + 5) % 7 + 1, count))
        elif letter == "F":
            parts.append(_padded((values - 1) // 7 + 1 if is_simple else (values - 1) % 7 + 1, count))
        elif letter in "yuY" and count == 2:
            parts.append(_padded(np.abs(values) % 100, 2))
        else:
            parts.append(_padded(values, count))
    return pc.binary_join_element_wise(*parts, "")


def _filled(texts: pa.Array, width: int) -> pa.Array:
    """Texts with blanks before them up to a width, which none of them has more characters than."""
    if pc.any(pc.greater(pc.utf8_length(texts), width)).as_py():
        raise ValueError(f"what 'p' fills up has more than {width} characters")
    return pc.utf8_lpad(texts, width)


def _padded(numbers: Numbers, digits: int) -> pa.Array:
    """Numbers of at least so many digits, which their sign is before."""
    texts = pa.array(np.abs(numbers)).cast(pa.string())
    texts = pc.utf8_lpad(texts, digits, "0") if digits > 1 else texts
    signs = pa.array(np.where(numbers < 0, "-", "")) if (numbers < 0).any() else None
    return texts if signs is None else pc.binary_join_element_wise(signs, texts, "")


def _names(letter: str, count: int, is_simple: bool) -> list[str]:
    """The names that a letter stands for so many times."""
    short = {"G": ("AD", "BC"), **dict.fromkeys("Qq", ("Q1", "Q2", "Q3", "Q4"))}
    names = _NAMES[letter]
    if count < 4 or (is_simple and letter == "G"):
        return list(short.get(letter, [name[:3] for name in names]))
    return [name[0] for name in names] if count == 5 and not is_simple else list(names)


def _zone(offsets: Numbers, letter: str, count: int) -> pa.Array:
    """`+0200`, or of X `Z`, `+02` or `+02:00`."""
    minutes = np.abs(offsets) // 60
    parts = [pa.array(np.where(offsets < 0, "-", "+")), _padded(minutes // 60, 2), _padded(minutes % 60, 2)]
    if letter == "Z":
        return pc.binary_join_element_wise(*parts, "")
    texts = pc.binary_join_element_wise(*(parts[:2] if count == 1 else parts), ":" if count == 3 else "")
    if count == 3:
        texts = pc.replace_substring(texts, ":", "", max_replacements=1)
    return pc.if_else(pa.array(offsets == 0), "Z", texts)
