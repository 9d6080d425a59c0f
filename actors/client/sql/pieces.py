"""Where statements end in a text: at each `;` that is in no string, name, comment, or block of statements."""

from __future__ import annotations

import re

_PARTS = re.compile(
    r"""
    (?P<skipped>'(?:[^']|'')*'|`(?:[^`]|``)*`|--[^\n]*|/\*.*?\*/)
    |(?P<open>'|`|/\*)
    |(?P<word>[^\W\d][\w$]*)
    |(?P<end>;)
    """,
    re.VERBOSE | re.DOTALL,
)


def pieces_of(text: str) -> list[str]:
    """The statements of a text, each as it is written, without the `;` behind it and blanks around it; the last may be
    unfinished."""
    found, begin = [], 0
    for end in _ends(text):
        found.append(text[begin:end].strip())
        begin = end + 1
    found.append(text[begin:].strip())
    return [piece for piece in found if not is_blank(piece)]


def is_complete(text: str) -> bool:
    """Whether the last statement has its `;` behind it."""
    ends = _ends(text)
    return bool(ends) and is_blank(text[ends[-1] + 1 :])


def is_blank(text: str) -> bool:
    """Whether there is nothing but blanks and comments."""
    return leading_blank(text) == text


def leading_blank(text: str) -> str:
    """The blanks and comments that a text begins with."""
    found = re.match(r"(?:\s|--[^\n]*|/\*(?!\+).*?\*/)*", text, flags=re.DOTALL)
    assert found is not None
    return found[0]


def _ends(text: str) -> list[int]:
    """The places of the `;` that end statements."""
    ends: list[int] = []
    blocks: list[str] = []
    for part in _PARTS.finditer(text):
        if part["open"]:
            break  # it does not end, and neither does the statement
        word = (part["word"] or "").upper()
        if word in ("BEGIN", "CASE"):
            blocks.append(word)
        elif word == "END" and blocks:
            blocks.pop()
        elif part["end"] and not blocks:
            ends.append(part.start())
    return ends
