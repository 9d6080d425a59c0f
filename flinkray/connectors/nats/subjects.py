"""Subjects and what filters of them let through."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from flinkray.errors import InvalidProgramError

ALL = ">"


def checked_subject(subject: str, name: str, may_be_filter: bool) -> str:
    """The subject of messages, or a filter of such.

    Args:
        name: of what takes it, for the error.
    Raises:
        InvalidProgramError: it is none.
    """
    tokens = subject.split(".")
    is_filter = any(token in ("*", ALL) for token in tokens)
    if not all(tokens) or any(character.isspace() for character in subject) or ALL in tokens[:-1]:
        raise InvalidProgramError(f"{name}: {subject!r} is no subject; it is like 'orders.eu', without spaces")
    if is_filter and not may_be_filter:
        raise InvalidProgramError(f"{name}: {subject!r} stands for many subjects, and one is written to")
    return subject


def covers(filters: Sequence[str], subject: str) -> bool:
    """Whether one of the filters lets all of a subject, or of a filter, through."""
    return any(_covers(each.split("."), subject.split(".")) for each in filters)


def _covers(pattern: list[str], tokens: list[str]) -> bool:
    for wanted, token in zip_longest(pattern, tokens):
        if wanted == ALL:
            return token is not None
        if wanted is None or token is None or token == ALL or (wanted != "*" and wanted != token):
            return False
    return True


def overlap(one: str, other: str) -> bool:
    """Whether a message may pass both filters."""
    for a, b in zip_longest(one.split("."), other.split(".")):
        if a is None or b is None:
            return False
        if ALL in (a, b):
            return True
        if a != b and "*" not in (a, b):
            return False
    return True
