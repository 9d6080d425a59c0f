"""Text to tokens: words, names in backticks, numbers, strings, symbols, hints. Comments and blanks are left out."""

from __future__ import annotations

import re

from msgspec import Struct

from flinkray.errors import SqlParserError
from flinkray.tables.syntax.nodes import Span

WORD, QUOTED, NUMBER, STRING, BINARY, SYMBOL, END = "word", "quoted", "number", "string", "binary", "symbol", "end"

_PATTERN = re.compile(
    r"""
    (?P<blank>\s+|--[^\n]*|//[^\n]*|/\*(?!\+)(?:[^*]|\*(?!/))*\*/)
    |(?P<string>'(?:[^']|'')*')
    |(?P<binary>[xX]'(?P<digits>[^']*)')
    |(?P<unicode>[uU]&'(?P<escaped>(?:[^']|'')*)')
    |(?P<national>(?:[nN]|_(?P<charset>[a-zA-Z][\w.:-]*))'(?P<text>(?:[^']|'')*)')
    |(?P<escapes>[eE]'(?P<escaping>(?:[^'\\]|''|\\(?s:.))*)')
    |(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<word>(?:[^\W\d]|\$)[\w$]*)
    |(?P<quoted>`(?:[^`]|``)+`)
    |(?P<symbol>/\*\+|\*/|=>|<>|!=|<=|>=|\|\||::|[-+*/%(),.;:=<>\[\]{}?|^])
    """,
    re.VERBOSE,
)


_CHARSETS = frozenset(["ASCII", "USASCII", "ISO88591", "LATIN1", "UTF16", "UTF16BE", "UTF16LE", "UTF8"])
_ESCAPE = re.compile(
    r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|U(?:000[0-9a-fA-F]|0010)[0-9a-fA-F]{4}|[0-7]{1,3}|.)", re.DOTALL
)
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class Token(Struct, frozen=True):
    """One token. `key` is what a grammar compares: a word in capitals, or the symbol; empty for names and literals."""

    kind: str
    text: str
    """As written; for a name in backticks and for strings, what they stand for. Of BINARY, the hexadecimal digits."""
    key: str
    span: Span


def tokens_of(sql: str) -> list[Token]:
    """All tokens of a text, and one of kind END behind them.

    Raises:
        SqlParserError: something that is no token, or a string, name or comment that does not end.
    """
    found: list[Token] = []
    place, in_hint = 0, False
    while place < len(sql):
        match = _PATTERN.match(sql, place)
        if match is None:
            raise _no_token(sql, place)
        if match.lastgroup == "symbol" and match[0] == "*/" and not in_hint:
            match = re.compile(r"(?P<symbol>\*)").match(sql, place)
            assert match is not None
        token = _token(sql, match)
        place = match.end()
        if token is not None:
            in_hint = token.key == "/*+" or (in_hint and token.key != "*/")
            found.append(token)
    found.append(Token(END, "", "", Span(len(sql), len(sql))))
    return found


def _token(sql: str, match: re.Match[str]) -> Token | None:
    span = Span(match.start(), match.end())
    for kind in (WORD, NUMBER, SYMBOL):
        if match[kind] is not None:
            return Token(kind, match[0], "" if kind == NUMBER else match[0].upper(), span)
    if match["quoted"] is not None:
        return Token(QUOTED, match[0][1:-1].replace("``", "`"), "", span)
    if match["string"] is not None:
        return Token(STRING, match[0][1:-1].replace("''", "'"), "", span)
    if match["national"] is not None:
        charset = match["charset"]
        if charset is not None and charset.upper().replace("-", "") not in _CHARSETS:
            raise SqlParserError(f"the character set {charset!r} is not known", sql, span.start, span.end)
        return Token(STRING, match["text"].replace("''", "'"), "", span)
    if match["unicode"] is not None:
        return Token(STRING, match["escaped"].replace("''", "'"), "U&", span)
    if match["escapes"] is not None:
        return Token(STRING, _ESCAPE.sub(_unescaped, match["escaping"].replace("''", "'")), "", span)
    if match["binary"] is not None:
        if re.fullmatch(r"(?:[0-9a-fA-F]{2})*", match["digits"]) is None:
            raise SqlParserError("a binary string has hexadecimal digits, two for each byte", sql, span.start, span.end)
        return Token(BINARY, match["digits"], "", span)
    return None


def _unescaped(escape: re.Match[str]) -> str:
    """What an escape of `E'...'` stands for."""
    written = escape[1]
    if written[0] in "xuU" and len(written) > 1:
        return chr(int(written[1:], 16))
    return chr(int(written, 8)) if written[0] in "01234567" else _CONTROLS.get(written, written)


def _no_token(sql: str, place: int) -> SqlParserError:
    here = sql[place]
    unclosed = {
        "'": "this string does not end: write the closing ', and a ' in it twice",
        "`": "this name does not end, or is empty: write the closing backtick",
        "/": "this comment does not end: write the closing */",
        '"': "double quotes mean nothing here: write strings in single quotes, and names in backticks",
    }
    for quote in "‘’“”´":
        unclosed[quote] = f"{quote} is no quote of SQL: write strings in straight single quotes, '...'"
    end = place + 2 if sql.startswith("/*", place) else place + 1
    return SqlParserError(unclosed.get(here, f"the character {here!r} means nothing here"), sql, place, end)
