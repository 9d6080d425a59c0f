"""A place among the tokens of a text, and the errors that name it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from flinkray.errors import SqlParserError, did_you_mean
from flinkray.tables.syntax.names import Name, Path
from flinkray.tables.syntax.nodes import Span
from flinkray.tables.syntax.tokens import BINARY, END, NUMBER, QUOTED, STRING, SYMBOL, WORD, Token, tokens_of
from flinkray.tables.syntax.words import RESERVED, STRUCTURE

T = TypeVar("T")

DEEPEST = 60
"""Levels of parentheses, subqueries and operators within each other. Each takes some eight frames of Python, which has
a thousand."""


class Cursor:
    """Reads tokens one after the other. Words and symbols are asked for in capitals, several for a sequence of them."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self._tokens = tokens_of(sql)
        self._place = 0
        self._asked: set[str] = set()
        """What was asked for at this place and was not there."""
        self._begun: tuple[str, ...] = ()
        """Words of which the first came here, and not all of the others."""
        self._depth = 0

    # -- looking

    @property
    def token(self) -> Token:
        """The next token."""
        return self._tokens[self._place]

    def ahead(self, count: int) -> Token:
        """The token `count` places behind the next one, or END."""
        return self._tokens[min(self._place + count, len(self._tokens) - 1)]

    def at(self, *keys: str) -> bool:
        """Whether these words and symbols come next."""
        found = all(self.ahead(count).key == key for count, key in enumerate(keys))
        if not found:
            self._asked.add(keys[0])
            if self.token.key == keys[0]:
                self._begun = keys
        return found

    def at_end(self) -> bool:
        """Whether nothing comes any more."""
        return self.token.kind == END

    # -- taking

    def take(self) -> Token:
        """The next token, which is then behind."""
        token = self.token
        self._place = min(self._place + 1, len(self._tokens) - 1)
        self._forget()
        return token

    def _forget(self) -> None:
        self._asked.clear()
        self._begun = ()

    def accept(self, *keys: str) -> bool:
        """Take these words and symbols if all of them come next."""
        if not self.at(*keys):
            return False
        for _ in keys:
            self.take()
        return True

    def accept_any(self, *keys: str) -> str:
        """Take one of these words if one comes next, and say which; else empty."""
        for key in keys:
            if self.accept(key):
                return key
        return ""

    def expect(self, *keys: str) -> None:
        """Take these words and symbols.

        Raises:
            SqlParserError: something else comes.
        """
        for key in keys:
            if not self.accept(key):
                self.fail_expecting(key if key[0].isalpha() else f"'{key}'")

    def expect_any(self, *keys: str) -> str:
        """Take one of these words, and say which."""
        found = self.accept_any(*keys)
        if not found:
            *others, last = keys
            self.fail_expecting(f"{', '.join(others)} or {last}")
        return found

    # -- names and literals

    def at_name(self) -> bool:
        """Whether a name comes next: in backticks, or a word that is not reserved."""
        token = self.token
        return token.kind == QUOTED or (token.kind == WORD and token.key not in RESERVED)

    def name(self, what: str = "a name") -> Name:
        """Take a name; `what` it is says what was expected."""
        token = self.token
        if token.kind == WORD and token.key in RESERVED - STRUCTURE:
            if token.key == "DATE_TRUNC" and self._tokens[self._place + 1].key == "(":
                self.fail("there is no function DATE_TRUNC: write FLOOR(time TO HOUR)")
            self.fail(f"{token.text} is a reserved word and cannot be {what}; write it in backticks: `{token.text}`")
        if not self.at_name():
            self.fail_expecting(what)
        self.take()
        return Name(token.text, span=token.span)

    def path(self, what: str = "a name") -> Path:
        """Take names with dots between them."""
        names = [self.name(what)]
        while self.at(".") and self.ahead(1).key != "*":
            self.take()
            names.append(self.name(what))
        return Path(tuple(names), span=names[0].span.to(names[-1].span))

    def names(self, what: str = "a column") -> tuple[Name, ...]:
        """Take names in parentheses."""
        return self.in_parentheses(lambda: self.name(what))

    def string(self, what: str = "a string in single quotes") -> str:
        """Take a string; several strings one after the other are one."""
        if self.token.kind != STRING:
            self.fail_expecting(what)
        parts = []
        while self.token.kind == STRING:
            token = self.take()
            parts.append(self._unescaped(token) if token.key == "U&" else token.text)
        return "".join(parts)

    def bare(self, pattern: re.Pattern[str], what: str) -> str:
        """Take text that has no quotes, such as the key of an option: all that the pattern matches from here on."""
        start = self.token.span.start
        match = pattern.match(self.sql, start)
        if match is None:
            self.fail_expecting(what)
        if "//" in match[0]:
            self.fail(f"write {what} in single quotes where it has // in it, which begins a comment")
        while not self.at_end() and self.token.span.start < match.end():
            self.take()
        return match[0]

    def integer(self, what: str = "a whole number") -> int:
        """Take a whole number without sign."""
        if self.token.kind != NUMBER or not self.token.text.isdigit():
            self.fail_expecting(what)
        return int(self.take().text)

    def _unescaped(self, token: Token) -> str:
        r"""What a `U&'...'` string stands for: `\263A` is a character, and so is `\\`."""
        escape = "\\"
        if self.accept("UESCAPE"):
            escape = self.take().text
            if len(escape) != 1:
                self.fail("UESCAPE takes one character in single quotes", self.ahead(-1))
        pieces, place, text = [], 0, token.text
        while place < len(text):
            if text[place] != escape:
                pieces.append(text[place])
                place += 1
            elif text[place + 1 : place + 2] == escape:
                pieces.append(escape)
                place += 2
            else:
                digits = text[place + 1 : place + 5]
                try:
                    pieces.append(chr(int(digits, 16)) if len(digits) == 4 else self.fail("", token))
                except ValueError:
                    self.fail(f"{escape}{digits} is no character: four hexadecimal digits follow {escape}", token)
                place += 5
        return "".join(pieces)

    # -- lists

    def separated(self, read: Callable[[], T]) -> tuple[T, ...]:
        """One or several with commas between them."""
        found = [read()]
        while self.accept(","):
            found.append(read())
        return tuple(found)

    def in_parentheses(self, read: Callable[[], T]) -> tuple[T, ...]:
        """One or several with commas between them, in parentheses."""
        self.expect("(")
        found = self.separated(read)
        self.expect(")")
        return found

    def nested(self, read: Callable[[], T]) -> T:
        """What is read one level deeper.

        Raises:
            SqlParserError: too many levels, which would end Python's stack.
        """
        self._depth += 1
        if self._depth > DEEPEST:
            self.fail(f"this stands in more than {DEEPEST} expressions or queries within each other")
        try:
            return read()
        finally:
            self._depth -= 1

    def attempt(self, read: Callable[[], T]) -> T | None:
        """What is read, or None, and nothing taken, where it cannot be."""
        place = self._place
        try:
            return read()
        except SqlParserError:
            self.back_to(place)
            return None

    # -- places and errors

    def mark(self) -> int:
        """Where the next token begins."""
        return self.token.span.start

    def since(self, mark: int) -> Span:
        """From a mark to the end of the last token that was taken."""
        return Span(mark, max(mark, self._tokens[max(self._place - 1, 0)].span.end))

    def place(self) -> int:
        """A place to go back to."""
        return self._place

    def back_to(self, place: int) -> None:
        """Go back to a place."""
        self._place = place
        self._forget()

    def fail_expecting(self, what: str) -> NoReturn:
        """Raise that something else was expected here."""
        hint = self._hint()
        self.fail(
            f"expected {what}, not {self._found()}{hint}"
            if not self.at_end()
            else f"expected {what}, but the text ends"
        )

    def fail_unexpected(self) -> NoReturn:
        """Raise that what comes next fits nowhere."""
        if self.at_end():
            self.fail("the text ends in the middle of a statement")
        self.fail(f"{self._found()} does not fit here{self._hint()}")

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        """Raise an error at a token, or at the next one."""
        span = (token or self.token).span
        raise SqlParserError(message, self.sql, span.start, max(span.end, span.start + 1))

    def _found(self) -> str:
        token = self.token
        written = {
            STRING: "the string {}",
            NUMBER: "the number {}",
            QUOTED: "the name {}",
            BINARY: "{}",
            SYMBOL: "'{}'",
        }
        return written.get(token.kind, "{}").format(self.sql[token.span.start : token.span.end])

    def _hint(self) -> str:
        """The word that was meant, where one that could have come here, or before, is spelled nearly the same."""
        if self.token.key == "::":
            return "; write CAST(value AS type)"
        before = self._tokens[self._place - 1] if self._place else self.token
        if (before.key, self.token.key) == ("=", "="):
            return "; what is equal is compared with one ="
        if self.token.key == "," and before.kind == NUMBER and self._tokens[self._place - 2].key == "LIMIT":
            return "; write LIMIT count OFFSET start"
        if before.key == "," and (self.token.key in RESERVED or self.token.key == ")"):
            return "; there is a comma too many before it"
        if self._begun:
            return f"; {self._begun[0]} is followed by {' '.join(self._begun[1:])}"
        words = {key for key in self._asked if key[:1].isalpha()}
        if self.token.kind == WORD and (hint := did_you_mean(self.token.key, words - {self.token.key})):
            return hint
        if before.kind == WORD and before.key not in RESERVED:
            return did_you_mean(before.key, _CLAUSES).replace("; did", f"; {before.text} was read as a name: did")
        return ""


_CLAUSES = (
    "FROM",
    "WHERE",
    "GROUP",
    "HAVING",
    "ORDER",
    "LIMIT",
    "JOIN",
    "UNION",
    "WINDOW",
    "SELECT",
    "INSERT",
    "CREATE",
)
