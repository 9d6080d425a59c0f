"""Docstrings as reStructuredText, which is what Sphinx takes them for.

They are written for people who read code: with sections as in Google's style (`Args:`, `Returns:`, `Raises:`, or any
other words), and with Markdown's marks of code, single backticks and fences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_PART = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<code>(?s:.*?))^ *```$"
    r"|^(?P<section>[A-Z][\w ]*):\n(?P<body> .*\n(?: .*\n|\n)*)",
    re.MULTILINE,
)
_CODE = re.compile(r"`([^`]+)`")
_MARKUP = re.compile(r"[*|\\]|_(?=\W|$)")  # what reStructuredText would take for its own


def to_rst(docstring: str) -> str:
    """The docstring, which begins at its left margin and ends with a newline, as reStructuredText."""
    converted, end = [], 0
    for part in _PART.finditer(docstring):
        converted.append(_text(docstring[end : part.start()]))
        if part["section"]:
            converted.append("\n" + "\n".join(_fields(part["section"], part["body"].splitlines())) + "\n\n")
        else:
            code = "".join(f"    {line}\n" for line in part["code"].splitlines())
            converted.append(f"\n{part['indent']}.. code-block:: {part['language'] or 'text'}\n\n{code}\n")
        end = part.end()
    return "".join(converted) + _text(docstring[end:])


def _fields(section: str, body: Sequence[str]) -> Iterator[str]:
    """The section as one field, with a list of its entries: they begin at the margin, and go on with deeper lines."""
    lines = [line for line in body if line.strip()]
    margin = len(lines[0]) - len(lines[0].lstrip())
    entries: list[str] = []
    for line in lines:
        if entries and (section == "Returns" or line[margin] == " "):
            entries[-1] += f" {line.strip()}"
        else:
            entries.append(line.strip())
    if section == "Returns":
        yield f":Returns: {_text(entries[0])}"
        return
    yield f":{'Parameters' if section == 'Args' else section}:"
    for entry in entries:
        names, _, meaning = entry.partition(": ")
        yield f"    - {_text(_as_code(names))}: {_text(meaning)}"


def _as_code(names: str) -> str:
    """Names with commas between them as code; words as they are."""
    each = names.split(", ")
    return ", ".join(f"`{name}`" for name in each) if all(map(str.isidentifier, each)) else names


def _text(text: str) -> str:
    """Text with its code marked as reStructuredText marks it, and nothing else marked."""
    pieces = _CODE.split(text)
    pieces[::2] = [_MARKUP.sub(r"\\\g<0>", piece) for piece in pieces[::2]]
    # A letter may follow code behind an escaped blank only: `Row`s.
    pieces[1::2] = [
        f"``{code}``\\ " if after[:1].isalnum() else f"``{code}``"
        for code, after in zip(pieces[1::2], pieces[2::2], strict=True)
    ]
    return "".join(pieces)
