"""Texts that are dates, times and timestamps, and Java's patterns by which they are read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from actors.operators.calc.values import calendar
from actors.operators.calc.values.calendar import PER_SECOND, SECONDS_OF_DAY, Numbers
from actors.operators.calc.values.evaluation import kept_where

_SECONDS = r":(?P<s>[0-9]{1,2})(?:\.(?P<f>[0-9]{1,9}))?"
_CLOCK = r"(?P<H>[0-9]{1,2}):(?P<m>[0-9]{1,2})"
_TIMESTAMP = rf"^(?P<y>[0-9]{{4}})-(?P<M>[0-9]{{1,2}})-(?P<d>[0-9]{{1,2}})(?: {_CLOCK}{_SECONDS})?$"
_DATE = r"^[ ]*(?P<y>[0-9]{1,4})(?:-(?P<M>[0-9]{1,2})(?:-(?P<d>[0-9]{1,2})(?:[ T].*)?)?)?[ ]*$"
_TIME = rf"^[ ]*(?P<H>[0-9]{{1,2}})[ ]*$|^[ ]*{_CLOCK.replace('<H>', '<h>')}(?:{_SECONDS})?[ ]*$"
DEFAULT_PATTERN = "yyyy-MM-dd HH:mm:ss"
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_QUOTED = r"'(?P<quoted>(?:[^']|'')+)'"
_PARTS = {
    is_simple: re.compile(rf"(?P<letter>[A-Za-z])(?P=letter)*|{'|'.join(quotes)}|.", re.DOTALL)
    for is_simple, quotes in ((True, ("''", _QUOTED)), (False, (_QUOTED, "''")))
}
_MOST = {**dict.fromkeys("aWF", 1), **dict.fromkeys("wdhHKkms", 2), "D": 3, "S": 9, **dict.fromkeys("GEMLQqecB", 5)}
"""How often a letter of DateTimeFormatter may stand, where not any number of times."""
_OF_SIMPLE = frozenset("GyYMLwWDdFEuaHkKhmsSZX")
"""The letters of SimpleDateFormat that are written; of its others there are no letters in Arrow's words."""
_HOURS = {"h": (1, 12), "K": (0, 11), "k": (1, 24)}
"""The first and the last hour that a letter counts, where it is not H."""
DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


# -- reading -------------------------------------------------------------------------------------------------------


def parsed_timestamps(texts: pa.Array, precision: int, unit: str) -> pa.Array:
    """`2024-3-5 10:20:30.5` as CAST reads it; NULL where a text is no timestamp. The clock may be left out, and a day
    that a month does not have is its last."""
    plain = _plain_timestamps(texts, unit)
    return _composed(pc.extract_regex(texts, _TIMESTAMP), unit, precision) if plain is None else plain


def _plain_timestamps(texts: pa.Array, unit: str) -> pa.Array | None:
    """The timestamps where each text is one as Arrow reads it; else None."""
    is_plain = pc.match_substring_regex(texts, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}:[0-9]{2})?$")
    if not pc.all(is_plain).as_py():
        return None
    try:
        return texts.cast(pa.timestamp(unit))
    except pa.ArrowInvalid:  # one is no date
        return None


def parsed_dates(texts: pa.Array) -> pa.Array:
    """`2024-3-5`, `2024-3` or `2024`, whatever comes after a space or T; NULL where there is no such day."""
    found = pc.extract_regex(texts, _DATE)
    year, month, day = (_numbers(found, name, 1) for name in ("y", "M", "d"))
    days, valid = calendar.days_from(year, month, day, clamps=False)
    return _where(valid, calendar.with_nulls_of(days, found, pa.date32()))


def parsed_times(texts: pa.Array, precision: int) -> pa.Array:
    """`10:20:30.5`, `10:20` or `10` in nanoseconds; NULL where there is no such time."""
    found = pc.extract_regex(texts, _TIME)
    hour = np.maximum(_numbers(found, "H"), _numbers(found, "h"))
    nanos, valid = _clock(hour, _numbers(found, "m"), _numbers(found, "s"), _fraction(found, precision))
    return _where(valid, calendar.with_nulls_of(nanos, found, pa.time64("ns")))


def _composed(found: pa.Array, unit: str, precision: int) -> pa.Array:
    """Timestamps of the groups of a pattern; NULL where it did not match, or there is no such time."""
    year, month, day = (_numbers(found, name, default) for name, default in (("y", 1970), ("M", 1), ("d", 1)))
    short = _of_two_digits(found, year)
    is_one_year = ~_is_there(found, "y") | (year == short)
    year = _of_era(found, short)
    minute, second, fraction = _numbers(found, "m"), _numbers(found, "s"), _fraction(found, 9)
    hour = np.where(_is_there(found, "H"), _numbers(found, "H"), _hours(found))
    days, valid = calendar.days_from(year, month, day, clamps=True)
    days, valid = _of_day_of_year(found, days, year, valid & is_one_year & _are_hours(found, hour))
    place = found.type.get_field_index("E")
    if place >= 0:  # the day of the week, where there is one, is that of the date
        valid &= ~_is_there(found, "E") | (_place_in(found.field(place), DAYS) == (days + 4) % 7)
    is_midnight = (hour == 24) & (minute == 0) & (second == 0) & (fraction == 0)
    days, hour = days + is_midnight, np.where(is_midnight, 0, hour)  # the end of the day is the begin of the next
    nanos, is_time = _clock(hour, minute, second, fraction // 10 ** (9 - precision) * 10 ** (9 - precision))
    scale = PER_SECOND[unit]
    moments = days * (SECONDS_OF_DAY * scale) + nanos // (10**9 // scale)
    return _where(valid & is_time, calendar.with_nulls_of(moments, found, pa.timestamp(unit)))


def _hours(found: pa.Array) -> Numbers:
    """Hours of the day: of those that are counted from 1, the last is 0, and what is larger stays."""
    hour = _numbers(found, "H")
    for letter in reversed(_HOURS):
        if found.type.get_field_index(letter) >= 0:
            hour = np.where(_is_there(found, letter), _hours_of(found, letter), hour)
    return hour


def _hours_of(found: pa.Array, letter: str) -> Numbers:
    least, most = _HOURS[letter]
    hour = _numbers(found, letter)
    hour = np.where(hour == most, 0, hour) if least else hour
    return hour if letter == "k" else hour + 12 * _is_afternoon(found)


def _are_hours(found: pa.Array, hour: Numbers) -> npt.NDArray[np.bool_]:
    """Whether the hours are such that their letters count, and those of all letters are this one of the day."""
    valid = np.ones(len(found), np.bool_)
    has_half = _is_there(found, "a")
    for letter, (least, most) in _HOURS.items():
        if found.type.get_field_index(letter) >= 0:
            number = _numbers(found, letter)
            differs = _hours_of(found, letter) - hour
            is_same = np.where(has_half | (letter == "k"), differs == 0, differs % 12 == 0)
            valid &= ~_is_there(found, letter) | ((number >= least) & (number <= most) & is_same)
    return valid


def _clock(hour: Numbers, minute: Numbers, second: Numbers, nanos: Numbers) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    valid = (hour < 24) & (minute < 60) & (second < 60)
    return ((hour * 60 + minute) * 60 + second) * 10**9 + nanos, valid


def _numbers(found: pa.Array, name: str, default: int = 0) -> Numbers:
    """What a group of digits says; the default where it is not there."""
    place = found.type.get_field_index(name)
    if place < 0:
        return np.full(len(found), default, np.int64)
    texts = found.field(place)
    numbers = pc.if_else(pc.equal(texts, ""), str(default), texts).cast(pa.int64())
    result: Numbers = numbers.fill_null(default).to_numpy(zero_copy_only=False)
    return result


def _is_there(found: pa.Array, name: str) -> npt.NDArray[np.bool_]:
    """Whether a group is more than an empty text, as it is where it stands in a bracket that is missing."""
    place = found.type.get_field_index(name)
    if place < 0:
        return np.zeros(len(found), np.bool_)
    is_it: npt.NDArray[np.bool_] = pc.not_equal(found.field(place), "").fill_null(False).to_numpy(zero_copy_only=False)
    return is_it


def _fraction(found: pa.Array, precision: int) -> Numbers:
    """Nanoseconds of the digits after the point, of which so many count."""
    place = found.type.get_field_index("f")
    if place < 0:
        return np.zeros(len(found), np.int64)
    digits = pc.utf8_slice_codeunits(found.field(place), 0, precision) if precision else pa.repeat("", len(found))
    numbers: Numbers = pc.utf8_rpad(digits, 9, "0").cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _is_afternoon(found: pa.Array) -> Numbers:
    place = found.type.get_field_index("a")
    if place < 0:
        return np.zeros(len(found), np.int64)
    is_it: Numbers = pc.equal(pc.ascii_upper(found.field(place)), "PM").fill_null(False).cast(pa.int64()).to_numpy()
    return is_it


def _of_era(found: pa.Array, year: Numbers) -> Numbers:
    """Years before the year 1, of which the first is the year 0."""
    place = found.type.get_field_index("G")
    if place < 0:
        return year
    is_before = pc.equal(pc.ascii_upper(found.field(place)), "BC").fill_null(False).to_numpy(zero_copy_only=False)
    return np.where(is_before, 1 - year, year)


def _of_day_of_year(
    found: pa.Array, days: Numbers, year: Numbers, valid: npt.NDArray[np.bool_]
) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """The days, of which some are told by their numbers in their years, and whether there are such."""
    if found.type.get_field_index("D") < 0:
        return days, valid
    number, first = _numbers(found, "D", 1), calendar.first_day((year - 1970) * 12)
    is_day = (number >= 1) & (first + number <= calendar.first_day((year - 1969) * 12))
    is_told, has_other = _is_there(found, "D"), _is_there(found, "M") & _is_there(found, "d")
    told = np.where(is_told, first + number - 1, days)
    return told, valid & (~is_told | is_day) & (~has_other | (told == days))


def _place_in(texts: pa.Array, names: Sequence[str]) -> Numbers:
    """Which of the names each text begins like, whatever its case; -1 for none."""
    short = pa.array([name[:3].upper() for name in names])
    places: Numbers = pc.index_in(pc.ascii_upper(pc.utf8_slice_codeunits(texts, 0, 3)), short).fill_null(-1).to_numpy()
    return places.astype(np.int64)


def _offset(found: pa.Array) -> Numbers:
    """Seconds that a zone such as `+02:00` is before UTC."""
    texts = pc.replace_substring_regex(found.field("Z"), "[^0-9+-]", "")
    hours, minutes = (pc.utf8_slice_codeunits(texts, begin, begin + 2) for begin in (1, 3))
    signs = pc.if_else(pc.starts_with(texts, "-"), -1, 1)
    parts = [pc.if_else(pc.equal(each, ""), "0", each).cast(pa.int64()) for each in (hours, minutes)]
    seconds: Numbers = (
        pc.multiply(signs, pc.add(pc.multiply(parts[0], 3_600), pc.multiply(parts[1], 60)))
        .fill_null(0)
        .to_numpy(zero_copy_only=False)
    )
    return seconds


def _of_two_digits(found: pa.Array, year: Numbers, this_year: int | None = None) -> Numbers:
    """Years of two digits: those from 2000 on or, where it is said what year this is, from 80 years ago on."""
    place = found.type.get_field_index("yy")
    if place < 0:
        return year
    short = _numbers(found, "yy", 1970)
    is_short = pc.equal(pc.utf8_length(found.field(place)), 2).fill_null(False).to_numpy(zero_copy_only=False)
    century = 2000 if this_year is None else np.where(2000 + short >= this_year + 20, 1900, 2000)
    return np.where(_is_there(found, "yy"), np.where(is_short, century + short, short), year)


def _where(valid: npt.NDArray[np.bool_], values: pa.Array) -> pa.Array:
    return values if valid.all() else kept_where(pa.array(valid), values)


# -- patterns ------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def tokens(pattern: str, is_simple: bool = False) -> tuple[tuple[str, int], ...]:
    """A pattern of Java's DateTimeFormatter as letters with their counts; a literal text has count 0, and a bracket of
    what may be missing -1.

    Args:
        is_simple: it is one of SimpleDateFormat, which has fewer letters, takes any number of them, and no brackets.
    Raises:
        ValueError: a quotation mark is not closed, a bracket is not opened, or a letter or sign is not one of a
            pattern.
    """
    found: list[tuple[str, int]] = []
    depth = 0
    for part in _PARTS[is_simple].finditer(pattern):
        if letter := part["letter"]:
            count = len(part[0])
            if is_simple and letter not in _OF_SIMPLE:
                raise ValueError(f"the letter {letter!r} of a pattern is not known; a text in it stands in '…'")
            if not is_simple and (count > _MOST.get(letter, count) or part[0] in ("cc", "BB", "BBB")):
                raise ValueError(f"the letter {letter!r} of a pattern does not stand {count} times, as in {pattern!r}")
            following = pattern[part.end() : part.end() + 1]
            if letter == "p" and not (following.isascii() and following.isalpha()):
                raise ValueError(f"the letter 'p' of a pattern stands before the one that it fills up, in {pattern!r}")
            found.append((letter, count))
        elif part[0] == "''":
            found.append(("'", 0))
        elif part[0] == "'":
            raise ValueError(f"the pattern {pattern!r} has a quotation mark without another one")
        elif not is_simple and part[0] in "[]":
            depth += 1 if part[0] == "[" else -1
            if depth < 0:
                raise ValueError("a pattern has ']' without '['")
            found.append((part[0], -1))
        elif not is_simple and part[0] in "{}#":
            raise ValueError(f"{part[0]!r} of a pattern stands in '…'")
        else:
            found.append((part["quoted"].replace("''", "'") if part["quoted"] is not None else part[0], 0))
    return tuple(found)


def read_by(texts: pa.Array, pattern: str, unit: str = "ms", precision: int = 3) -> pa.Array:
    """Timestamps that texts of this pattern are, or, where one is not of it, that CAST reads; NULL for others."""
    plain = _plain_timestamps(texts, unit) if pattern == DEFAULT_PATTERN else None
    if plain is not None:
        return plain
    read = _composed(_matched(texts, f"{_regex(tokens(pattern))}$"), unit, precision)
    if read.null_count > texts.null_count:
        read = pc.coalesce(read, parsed_timestamps(pc.utf8_trim_whitespace(texts), precision, unit))
    return read


def read_leniently(texts: pa.Array, pattern: str, this_year: int | None = None) -> pa.Array:
    """Timestamps, in seconds, of texts that begin as the pattern says; NULL for others. Of a pattern with a zone they
    are instants.

    So does Java's SimpleDateFormat: numbers have any digits, and what is too large counts on in the next unit.

    Args:
        this_year: the year by which those of two digits are read, as years from 80 years ago on.
    """
    plain = _plain_timestamps(texts, "s") if pattern == DEFAULT_PATTERN else None
    if plain is not None and pc.all(pc.greater(pc.utf8_length(texts), len("yyyy-MM-dd"))).as_py() is not False:
        return plain
    found = _matched(texts, _regex(tokens(pattern, is_simple=True), is_lenient=True), is_lenient=True)
    year, month, day = (_numbers(found, name, default) for name, default in (("y", 1970), ("M", 1), ("d", 1)))
    year = _of_era(found, _of_two_digits(found, year, this_year))
    days = calendar.first_day((year - 1970) * 12 + month - 1) + day + _numbers(found, "D", 1) - 2
    seconds = ((days * 24 + _hours(found)) * 60 + _numbers(found, "m")) * 60 + _numbers(found, "s")
    seconds += _numbers(found, "f") // 1_000  # any number of milliseconds
    if found.type.get_field_index("Z") >= 0:
        return calendar.with_nulls_of(seconds - _offset(found), found, pa.timestamp("s", "UTC"))
    return calendar.with_nulls_of(seconds, found, pa.timestamp("s"))


def _matched(texts: pa.Array, regex: str, is_lenient: bool = False) -> pa.Array:
    """The groups of a pattern, with a month's number for its name; NULL for all where it has none.

    Of groups of one name, such as `d` and `d_1`, there is one. What is empty does not count; if several do, they have
    to be of one value, or the row is NULL; leniently the last counts.
    """
    if "(?P<" not in regex:
        return pa.nulls(len(texts), pa.struct([]))
    found = pc.extract_regex(texts, regex)
    names = [field.name.partition("_")[0] for field in found.type]
    if "n" not in names and len(set(names)) == len(names):
        return found
    merged: dict[str, pa.Array] = {}
    is_null = found.is_null()
    for name, group in zip(names, found.flatten(), strict=True):
        if name == "n":  # a month by its name
            name, group = "M", _MONTH_NUMBERS.take(pa.array(_place_in(group, MONTHS) + 1))
        if (other := merged.get(name)) is not None:
            if not is_lenient:
                differ = pc.not_equal(_comparable(name, other), _comparable(name, group))
                are_there = pc.and_(pc.not_equal(other, ""), pc.not_equal(group, ""))
                is_null = pc.or_(is_null, pc.and_(differ, are_there).fill_null(False))
            group = pc.if_else(pc.equal(group, ""), other, group)
        merged[name] = group
    return pa.StructArray.from_arrays(list(merged.values()), list(merged), mask=is_null)


_MONTH_NUMBERS = pa.array(["", *(str(number + 1) for number in range(12))])
"""What is read of a month's name, after that of none."""


def _comparable(name: str, texts: pa.Array) -> pa.Array:
    """Texts of a group that are the same where their values are."""
    match name:
        case "f":
            return pc.utf8_rpad(texts, 9, "0")
        case "E":
            return pc.utf8_slice_codeunits(texts, 0, 3)
    return pc.utf8_ltrim(texts, "0")


_READ = {
    "y": ("y", 4),
    "u": ("y", 4),
    "M": ("M", 2),
    "L": ("M", 2),
    "d": ("d", 2),
    "H": ("H", 2),
    "k": ("k", 2),
    "h": ("h", 2),
    "K": ("K", 2),
    "m": ("m", 2),
    "s": ("s", 2),
    "D": ("D", 3),
}
"""Letters that are read as numbers: the group, and the most digits where the letter stands alone."""


_WORDS = {
    "a": ("a", ("AM", "PM")),
    "G": ("G", ("AD", "BC")),
    "E": ("E", DAYS),
    "M": ("n", MONTHS),
    "L": ("n", MONTHS),
}
"""Letters that are read as words: the group, and the words."""
_ZONES = {"X": "Z|[+-][0-9]{2}", "XX": "Z|[+-][0-9]{4}", "XXX": "Z|[+-][0-9]{2}:[0-9]{2}", "Z": "[+-][0-9]{4}"}
_ZONES |= {"x": "[+-][0-9]{2}", "xx": "[+-][0-9]{4}", "xxx": "[+-][0-9]{2}:[0-9]{2}", "ZZZZZ": _ZONES["XXX"]}
_ZONES |= {"z": "[A-Za-z]+(?:/[A-Za-z_]+)*|GMT[+-][0-9]{2}:[0-9]{2}", "ZZ": _ZONES["Z"], "ZZZ": _ZONES["Z"]}
"""What is read as a zone."""


def _regex(pattern: tuple[tuple[str, int], ...], is_lenient: bool = False) -> str:
    """What texts begin with that are of the pattern; leniently a number has any digits, if no other one follows.

    The second group of a name has the name with `_1`, and so on.
    """
    parts, depth = [], 0
    places: Counter[str] = Counter()

    def group_of(name: str, regex: str) -> str:
        place = places[name]
        places[name] += 1
        return f"(?P<{name}{f'_{place}' if place else ''}>{regex})"

    for (letter, count), (following, _) in zip(pattern, (*pattern, ("", 0))[1:], strict=True):
        is_last = following not in _READ and following != "S"
        zone = _ZONES.get(letter * count)
        if count < 0:
            depth += 1 if letter == "[" else -1
            parts.append("(?:" if letter == "[" else ")?")
        elif not count:
            parts.append(re.escape(letter))
        elif letter == "S":
            has_any = is_lenient and is_last
            parts.append(f"[ ]*{group_of('f', '[0-9]{1,9}')}" if has_any else group_of("f", f"[0-9]{{{count}}}"))
        elif letter in _WORDS and (letter not in "ML" or count > 2):
            group, words = _WORDS[letter]
            short = [word[:3] for word in words]
            if is_lenient:  # long and short words, whatever the count
                parts.append(group_of(group, f"(?i:{'|'.join((*words, *short))})"))
            else:
                parts.append(group_of(group, "|".join(words if count > 3 else short)))
        elif zone is not None and not (is_lenient and letter == "z"):
            parts.append(group_of("Z", zone) if is_lenient else f"(?:{zone})")
        elif letter == "u" and is_lenient:
            parts.append("[ ]*[0-9]+")  # the day of the week, which a date says better
        elif letter in _READ:
            group, most = _READ[letter] if letter not in "yu" or count != 2 else ("yy", 2)
            sign = "-?" if letter == "y" else ""
            if is_lenient and is_last:
                parts.append(f"[ ]*{group_of(group, f'{sign}[0-9]{{1,10}}')}")
            else:
                parts.append(group_of(group, f"[0-9]{{{count if count > 1 else f'1,{most}'}}}"))
        else:
            raise ValueError(f"the letter {letter!r} of a pattern is written, but cannot be read")
    parts.append(")?" * depth)
    return f"^{''.join(parts)}"
