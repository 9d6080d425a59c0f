"""Functions of texts and bytes. Characters are code points, and the first has the place 1."""

from __future__ import annotations

import base64
import codecs
import datetime
import hashlib
import re
import uuid
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, unquote_plus, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.operators.calc.numbers import without_zeros
from actors.operators.calc.patterns import compiled
from actors.operators.calc.values.evaluation import (
    Datum,
    Kernel,
    KernelCall,
    as_array,
    by_distinct,
    kept_where,
    nulls_where,
    plain,
    with_call,
)
from flinkray.tables.types.logical import TEXTS, TypeRoot

_TEXT = pa.string()
_DECIMAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_SPECIFIER = re.compile(
    r"%(?:(?P<place>[1-9]\d*)\$)?(?P<flags>[-#+ 0,]*)(?P<width>\d*)(?P<precision>(?:\.\d+)?)(?P<kind>[sdfeEoxXgGcbn%])"
)
_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INTEGER: 32, TypeRoot.BIGINT: 64}
_HEX = np.array([list(b"%02X" % byte) for byte in range(256)], np.uint8)
"""The two digits of each byte."""
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")


def _by_distinct(compute: Callable[..., object], arrow_type: pa.DataType = _TEXT) -> Callable[..., pa.Array]:
    """A function that Arrow lacks, called once for each distinct value of the column."""

    def kernel(value: pa.Array, *constants: object) -> pa.Array:
        return by_distinct(compute, arrow_type, value, *constants)

    return kernel


def _join(*texts: Datum) -> Datum:
    return pc.binary_join_element_wise(*texts, pa.scalar("" if texts[0].type == _TEXT else b"", texts[0].type))


def join_others(separator: str, *texts: Datum) -> Datum:
    """The texts that are not NULL with the separator between."""
    joined = pc.binary_join_element_wise(*texts, separator, null_handling="skip")
    rows = [len(text) for text in texts if isinstance(text, pa.Array)]
    if not rows or len(joined) == rows[0]:
        return joined
    # Arrow loses all rows where each text is NULL.
    parts = [pc.fill_null(pc.binary_join_element_wise(separator, text, ""), "") for text in texts]
    return pc.utf8_slice_codeunits(_join(*parts), len(separator))


# -- parts ---------------------------------------------------------------------------------------------------------


def _substring(text: pa.Array, start: int, length: int | None = None) -> pa.Array:
    """From the place `start`, from behind where it is negative; nothing where that is before the text begins."""
    if length is not None and length <= 0:
        return _empty(text) if length == 0 else pa.nulls(len(text), _TEXT)
    if start >= 0:
        begin = max(start - 1, 0)
        return pc.utf8_slice_codeunits(text, begin, None if length is None else begin + length)
    found = pc.utf8_slice_codeunits(text, start, None)
    if length is not None:
        found = pc.utf8_slice_codeunits(found, 0, length)
    is_short = pc.less(pc.utf8_length(text), -start)
    return pc.if_else(is_short, "", found)


def _empty(text: pa.Array) -> pa.Array:
    return pc.if_else(text.is_valid(), "", pa.scalar(None, _TEXT))


def _left(text: pa.Array, length: int) -> pa.Array:
    return pc.utf8_slice_codeunits(text, 0, max(length, 0))


def _right(text: pa.Array, length: int) -> pa.Array:
    return pc.utf8_slice_codeunits(text, -length, None) if length > 0 else _empty(text)


def _overlay(text: pa.Array, other: Datum, start: int, length: int | None = None) -> pa.Array:
    """The text with `length` characters from `start` on replaced: as many as the other has, if it is not said."""
    width: Datum = pc.utf8_length(other) if length is None else length
    size = pc.utf8_length(text)
    if start <= 0:
        return nulls_where(pc.is_null(other), text)
    head = pc.utf8_slice_codeunits(text, 0, start - 1)
    if isinstance(width, pa.Scalar | int):
        number = width.as_py() if isinstance(width, pa.Scalar) else width
        if number is None:
            return pa.nulls(len(text), _TEXT)
        tail = pc.utf8_slice_codeunits(text, start - 1 + number, None) if number > 0 else pa.scalar("")
    else:
        rest = pc.utf8_slice_codeunits(text, start - 1, None)
        tail = _per_length(rest, width)
    is_beyond = pc.and_kleene(pc.less(size, start), pc.is_valid(other))
    return pc.if_else(is_beyond, text, _join(head, other, tail))


def _per_length(text: pa.Array, lengths: pa.Array) -> pa.Array:
    """Each text without so many first characters, and nothing of it where there are none; texts are cut once for each
    length."""
    result = pa.nulls(len(text), _TEXT)
    for length in lengths.unique().drop_null().to_pylist():
        rest = pc.utf8_slice_codeunits(text, length) if length > 0 else pa.scalar("")
        result = pc.if_else(pc.equal(lengths, length).fill_null(False), rest, result)
    return result


def _split_index(call: KernelCall, text: pa.Array, separator: str | int, index: int) -> pa.Array:
    """The part at `index`, from 0; NULL where there are fewer, as of an empty text."""
    if index < 0:
        return pa.nulls(len(text), _TEXT)
    if separator == "":  # then white space separates
        parts = pc.split_pattern_regex(text, r"\s")
    else:
        parts = pc.split_pattern(text, chr(separator) if isinstance(separator, int) else separator)
    lengths = pc.list_value_length(parts)
    is_there = pc.and_(pc.greater(lengths, index), pc.not_equal(text, ""))
    begins = np.asarray(parts.offsets)[:-1].astype(np.int64) + index
    begins = np.minimum(begins, max(len(parts.values) - 1, 0))
    if not len(parts.values):
        return pa.nulls(call.rows, _TEXT)
    return kept_where(is_there, parts.values.take(pa.array(begins)))


def _split(text: pa.Array, separator: str) -> pa.Array:
    if separator:
        return pc.split_pattern(text, separator)
    return _by_distinct(list, pa.list_(_TEXT))(text)


# -- places --------------------------------------------------------------------------------------------------------


def _position(text: pa.Array, wanted: str) -> pa.Array:
    """The place of the first occurrence, 0 where there is none."""
    found = pc.find_substring(text, wanted)
    if wanted and pc.all(pc.string_is_ascii(text)).as_py() is False:
        # What was found is a number of bytes: as many characters as there are before the first occurrence.
        heads = pc.list_element(pc.split_pattern(text, wanted, max_splits=1), 0)
        found = pc.if_else(pc.less(found, 0), found, pc.utf8_length(heads))
    return pc.add(found, pa.scalar(1, pa.int32()))


def _locate(wanted: str, text: pa.Array, start: int = 1) -> pa.Array:
    if start < 1:
        return pc.multiply(_position(text, wanted), pa.scalar(0, pa.int32()))
    found = _position(pc.utf8_slice_codeunits(text, start - 1), wanted)
    return pc.if_else(pc.greater(found, 0), pc.add(found, pa.scalar(start - 1, pa.int32())), found)


def _instr(text: str, wanted: str, start: int = 1, occurrence: int = 1) -> int:
    """The place of an occurrence from `start` on, or backwards from behind where it is negative; overlapping ones
    count."""
    if start == 0 or occurrence < 1:
        return 0
    at = start - 2 if start > 0 else len(text) + start + 1
    for _ in range(occurrence):
        at = text.find(wanted, at + 1) if start > 0 else text.rfind(wanted, 0, max(at - 1 + len(wanted), 0))
        if at < 0:
            return 0
    return at + 1


# -- characters ----------------------------------------------------------------------------------------------------


def _cased(ascii_kernel: Callable[[Datum], Datum], compute: Callable[[str], str]) -> Kernel:
    """By Arrow's kernel for ASCII, and by Python's rules, which are Unicode's as Java's are, where there is more."""

    def kernel(text: pa.Array) -> pa.Array:
        is_ascii = pc.string_is_ascii(text)
        if pc.all(is_ascii).as_py() is not False:
            return ascii_kernel(text)
        return _by_distinct(compute)(text)

    return plain(kernel)


def _initcap(text: pa.Array) -> pa.Array:
    """Words are of letters and digits of ASCII; other characters stay."""
    return _by_distinct(_capitalised)(text)


def _capitalised(text: str) -> str:
    out, begins = [], True
    for character in text:
        is_word = character.isascii() and character.isalnum()
        out.append((character.upper() if begins else character.lower()) if is_word else character)
        begins = not is_word
    return "".join(out)


_TRIMS: dict[str, Callable[..., Datum]] = {"BOTH": pc.utf8_trim, "LEADING": pc.utf8_ltrim, "TRAILING": pc.utf8_rtrim}


def _trim(side: str, characters: str, text: pa.Array) -> pa.Array:
    """Without any of the characters at the ends."""
    return _TRIMS[side](text, characters) if characters else text


def _trim_set(kernel: Callable[..., Datum]) -> Kernel:
    return plain(lambda text, characters=" ": kernel(text, characters) if characters else text, 1)


def _pad(text: pa.Array, length: int, fill: str, at_front: bool) -> pa.Array:
    """Cut to the length, or filled up to it by repeating `fill`, which begins anew at its place."""
    if length < 0 or not fill:
        return pa.nulls(len(text), _TEXT)
    cut = pc.utf8_slice_codeunits(text, 0, length)
    if len(fill) == 1:
        return (pc.utf8_lpad if at_front else pc.utf8_rpad)(cut, length, fill)
    missing = pc.subtract(pa.scalar(length, pa.int32()), pc.utf8_length(cut))
    fills = pa.array([(fill * (size // len(fill) + 1))[:size] for size in range(length + 1)], _TEXT)
    filled = fills.take(missing)
    return _join(filled, cut) if at_front else _join(cut, filled)


def _replace(text: pa.Array, old: str, new: str) -> pa.Array:
    if old:
        return pc.replace_substring(text, old, new)
    return _by_distinct(lambda one: one.replace("", new))(text)


def _translate(_: KernelCall, text: pa.Array, old: str | None, new: str | None) -> pa.Array:
    """Each character of `old` becomes that of `new` at its place, and goes where there is none; NULL has none."""
    old, new = old or "", new or ""
    table: dict[int, str | None] = {}
    for place, character in enumerate(old):
        table.setdefault(ord(character), new[place] if place < len(new) else None)
    return _by_distinct(lambda one: one.translate(table))(text)


def _elt(call: KernelCall, index: pa.Array, *values: Datum) -> pa.Array:
    conditions = pc.make_struct(*(pc.equal(index, place).fill_null(False) for place in range(1, len(values) + 1)))
    return pc.case_when(conditions, *values).cast(call.arrow_type)


def _repeat(text: pa.Array, times: int) -> pa.Array:
    return pc.binary_repeat(text, max(times, 0))


def _ascii(text: pa.Array) -> pa.Array:
    """The first byte, as Java's sign of one has it; 0 of an empty text."""
    return _by_distinct(lambda one: (one.encode()[0] + 128) % 256 - 128 if one else 0, pa.int32())(text)


def _chr(code: int) -> str:
    """The character of the lowest eight bits; nothing of a negative number."""
    return "" if code < 0 else chr(code % 256)


# -- bytes ---------------------------------------------------------------------------------------------------------


def _digest(name: str) -> Kernel:
    return plain(_by_distinct(lambda text: hashlib.new(name, text.encode()).hexdigest()))


def _sha2(text: pa.Array, bits: int) -> pa.Array:
    if bits not in (224, 256, 384, 512):
        raise ValueError(f"SHA2 has 224, 256, 384 or 512 bits, and not {bits}")
    return _by_distinct(lambda one: hashlib.new(f"sha{bits}", one.encode()).hexdigest())(text)


def _hex(call: KernelCall, value: pa.Array) -> pa.Array:
    if call.types[0].root in TEXTS:
        return _by_distinct(lambda one: one.encode().hex().upper())(value)
    words = value.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).astype(">i8").view(np.uint8)
    return without_zeros(_HEX[words].reshape(-1), 16, value)


def _unhex(text: str) -> bytes | None:
    """Of digits that are no pairs the first one gives 0, whatever it is."""
    if not _HEX_DIGITS.issuperset(text):
        return None
    return bytes.fromhex(text if len(text) % 2 == 0 else f"00{text[1:]}")


def _encoded(text: str, charset: str) -> bytes:
    """UTF-16 begins with the mark of big endian, as Java's.

    Raises:
        ValueError: there is no such charset.
    """
    _check_charset(charset)
    if charset.upper().replace("_", "-") == "UTF-16":
        return codecs.BOM_UTF16_BE + text.encode("utf-16-be", "replace") if text else b""
    return text.encode(charset, "replace")


def _decoded(value: bytes, charset: str) -> str:
    _check_charset(charset)
    return value.decode(charset, "replace")


def _check_charset(charset: str) -> None:
    try:
        codecs.lookup(charset)
    except LookupError as error:
        raise ValueError(f"there is no charset {charset!r}") from error


def _base64(value: str | bytes) -> str:
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


def _from_base64(text: str) -> str:
    return base64.b64decode(text).decode("utf-8", "replace")


# -- maps and addresses --------------------------------------------------------------------------------------------


def _str_to_map(text: str, entries: str = ",", sides: str = "=") -> list[tuple[str, str | None]]:
    """The delimiters are regular expressions; entries at the end that are empty are none."""
    pairs: dict[str, str | None] = {}
    found = _parts(compiled(entries), text)
    while found and not found[-1]:
        found.pop()
    separator = compiled(sides)
    for entry in found:
        key, *value = _parts(separator, entry, 2)
        pairs[key] = value[0] if value else None
    return list(pairs.items())


def _parts(separator: re.Pattern[str], text: str, most: int | None = None) -> list[str]:
    """What is between the separators, of which one without width separates nothing at the begin, as in Java."""
    parts: list[str] = []
    begin = 0
    for found in separator.finditer(text):
        if most is not None and len(parts) == most - 1:
            break
        if found.end():
            parts.append(text[begin : found.start()])
            begin = found.end()
    return [*parts, text[begin:]]


def _parse_url(text: str, part: str, key: str | None = None) -> str | None:
    """A part of an address by Java's names; NULL where it is not there."""
    try:
        url = urlsplit(text)
    except ValueError:
        return None
    if not url.scheme:
        return None
    if part == "QUERY" and key is not None:
        return dict(reversed(parse_qsl(url.query, keep_blank_values=True))).get(key)
    user = url.netloc.rpartition("@")[0]
    parts = {
        "HOST": url.hostname,
        "PATH": url.path,
        "QUERY": url.query or None,
        "REF": url.fragment or None,
        "PROTOCOL": url.scheme,
        "FILE": f"{url.path}?{url.query}" if url.query else url.path,
        "AUTHORITY": url.netloc or None,
        "USERINFO": user or None,
    }
    return parts.get(part)


def _url_encode(text: str) -> str:
    return quote(text, safe=" *").replace("~", "%7E").replace(" ", "+")


def _url_decode(text: str) -> str | None:
    if re.search(r"%(?![0-9A-Fa-f]{2})", text):
        return None
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError:
        return None


def _inet_aton(text: str) -> int | None:
    """The number of an address such as 127.0.0.1, of which parts may be left out; NULL where it is none."""
    parts = text.split(".")
    if not 1 <= len(parts) <= 4 or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    if any(len(part.lstrip("0")) > 10 for part in parts):  # larger than any address
        return None
    *first, last = (int(part.lstrip("0") or "0") for part in parts)
    rest = 4 - len(first)
    if any(part > 255 for part in first) or last >= 256**rest:
        return None
    return sum(part << 8 * (3 - place) for place, part in enumerate(first)) + last


def _inet_ntoa(number: int) -> str | None:
    return ".".join(map(str, number.to_bytes(4))) if 0 <= number < 2**32 else None


def _printf(call: KernelCall, pattern: Datum, *values: Datum) -> pa.Array:
    columns = [as_array(value, call.rows).to_pylist() for value in (pattern, *values)]
    bits = [_BITS.get(kind.root, 0) for kind in call.types[1:]]
    return pa.array(
        [row[0] if row[0] is None else _formatted(row[0], row[1:], bits) for row in zip(*columns, strict=True)], _TEXT
    )


def _formatted(pattern: str, values: Sequence[Any], bits: Sequence[int]) -> str | None:
    """The values in their places, as `%5.2f` and the like say; NULL where one does not fit.

    Args:
        bits: of each value that is a whole number: negative ones are written as those of so many in %x and %o.
    """
    following = iter(range(len(values)))

    def written(found: re.Match[str]) -> str:
        kind = found["kind"]
        if kind in "n%":
            return "\n" if kind == "n" else "%"
        place = next(following) if found["place"] is None else int(found["place"]) - 1
        value, flags, width, precision = values[place], found["flags"], found["width"], found["precision"]
        if kind == "b":
            value, kind = value is not None and value is not False, "s"
        if value is None or (kind == "s" and isinstance(value, bool)):
            text = str(value).lower() if value is not None else "NULL" if kind in "XEG" else "null"
            value, kind, flags = text, "s", flags.replace(",", "")
        if kind in "doxX" and (isinstance(value, bool) or not isinstance(value, int)):
            raise TypeError(kind)
        if (kind in "feEgG" and isinstance(value, int)) or (kind == "c" and isinstance(value, str)):  # as in Java
            raise TypeError(kind)
        if kind in "oxX" and value < 0:
            value += 1 << bits[place]
        if kind == "s" and isinstance(value, datetime.datetime):
            value = _iso_text(value)
        if "," in flags:
            return _grouped(value, flags, width, precision, kind)
        result: str = f"%{flags}{width}{precision}{kind}" % value
        return result

    try:
        return _SPECIFIER.sub(written, pattern)
    except (StopIteration, IndexError, TypeError, ValueError, OverflowError):
        return None


def _iso_text(value: datetime.datetime) -> str:
    """A time as Java's LocalDateTime writes it: with as many parts, and digits by threes, as there are."""
    micros = value.microsecond
    least = "microseconds" if micros % 1000 else "milliseconds" if micros else "seconds" if value.second else "minutes"
    return value.replace(tzinfo=None).isoformat(timespec=least)


def _grouped(value: Any, flags: str, width: str, precision: str, kind: str) -> str:
    """A number with commas between its thousands, which zeros in front of it have not, as in Java.

    Raises:
        ValueError: it is to be written as something that has no thousands.
    """
    if kind not in "dfgG":
        raise ValueError(kind)
    sign = "+" if "+" in flags else " " if " " in flags else ""
    number: str = format(value, f"{sign},{precision}{kind}")
    if "0" in flags:
        digits = number.lstrip("+- ")
        sign = number[: len(number) - len(digits)]
        return sign + digits.rjust(int(width or 0) - len(sign), "0")
    return number.ljust(int(width or 0)) if "-" in flags else number.rjust(int(width or 0))


def _typeof(call: KernelCall, *_: Datum) -> pa.Scalar:
    return pa.scalar(str(call.types[0]))


def _uuid(call: KernelCall) -> pa.Array:
    return pa.array([str(uuid.uuid4()) for _ in range(call.rows)], _TEXT)


TEXT_KERNELS = {
    "UUID": with_call(_uuid),
    "||": plain(_join),
    "CONCAT": plain(_join),
    "CONCAT_WS": plain(join_others, 0),
    "SUBSTRING": plain(_substring, 1, 2),
    "LEFT": plain(_left, 1),
    "RIGHT": plain(_right, 1),
    "POSITION": plain(lambda wanted, text: _position(text, wanted), 0),
    "LOCATE": plain(_locate, 0, 2),
    "INSTR": plain(_by_distinct(_instr, pa.int32()), 1, 2, 3),
    "TRIM": plain(_trim, 0, 1),
    "LTRIM": _trim_set(pc.utf8_ltrim),
    "RTRIM": _trim_set(pc.utf8_rtrim),
    "BTRIM": _trim_set(pc.utf8_trim),
    "UPPER": _cased(pc.ascii_upper, str.upper),
    "LOWER": _cased(pc.ascii_lower, str.lower),
    "INITCAP": plain(_initcap),
    "LPAD": plain(lambda text, length, fill: _pad(text, length, fill, at_front=True), 1, 2),
    "RPAD": plain(lambda text, length, fill: _pad(text, length, fill, at_front=False), 1, 2),
    "REPLACE": plain(_replace, 1, 2),
    "SPLIT_INDEX": with_call(_split_index, 1, 2),
    "SPLIT": plain(_split, 1),
    "STARTSWITH": plain(pc.starts_with, 1),
    "ENDSWITH": plain(pc.ends_with, 1),
    "REVERSE": plain(pc.utf8_reverse),
    "CHAR_LENGTH": plain(pc.utf8_length),
    "OVERLAY": plain(_overlay, 2, 3),
    "REPEAT": plain(_repeat, 1),
    "TRANSLATE": Kernel(_translate, frozenset({1, 2}), is_strict=False),
    "ELT": with_call(_elt),
    "ASCII": plain(_ascii),
    "CHR": plain(_by_distinct(_chr)),
    "MD5": _digest("md5"),
    "SHA1": _digest("sha1"),
    "SHA224": _digest("sha224"),
    "SHA256": _digest("sha256"),
    "SHA384": _digest("sha384"),
    "SHA512": _digest("sha512"),
    "SHA2": plain(_sha2, 1),
    "HEX": with_call(_hex),
    "UNHEX": plain(_by_distinct(_unhex, pa.binary())),
    "TO_BASE64": plain(_by_distinct(_base64)),
    "FROM_BASE64": plain(_by_distinct(_from_base64)),
    "ENCODE": plain(_by_distinct(_encoded, pa.binary()), 1),
    "DECODE": plain(_by_distinct(_decoded), 1),
    "STR_TO_MAP": plain(_by_distinct(_str_to_map, pa.map_(_TEXT, _TEXT)), 1, 2),
    "PARSE_URL": plain(_by_distinct(_parse_url), 1, 2),
    "URL_ENCODE": plain(_by_distinct(_url_encode)),
    "URL_DECODE": plain(_by_distinct(_url_decode)),
    "INET_ATON": plain(_by_distinct(_inet_aton, pa.int64())),
    "INET_NTOA": plain(_by_distinct(_inet_ntoa)),
    "PRINTF": with_call(_printf),
    "IS_ALPHA": plain(lambda text: pc.utf8_is_alpha(text).fill_null(False)),
    "IS_DIGIT": plain(lambda text: pc.utf8_is_digit(text).fill_null(False)),
    "IS_DECIMAL": plain(lambda text: pc.match_substring_regex(text, _DECIMAL).fill_null(False)),
    "TYPEOF": with_call(_typeof),
}
