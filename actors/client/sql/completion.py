"""What the word before the cursor may go on as."""

from __future__ import annotations

import re
from collections.abc import Iterable

from flinkray.tables.catalog import Catalog
from flinkray.tables.functions.registry import FUNCTIONS
from flinkray.tables.syntax.words import RESERVED

_WORD = re.compile(r"[\w$]*$")


def word_before(text: str) -> str:
    """The word that a text ends with; empty: it ends with something else."""
    found = _WORD.search(text)
    return found[0] if found else ""


def completions(text: str, catalog: Catalog) -> list[str]:
    """Words that begin as the text ends: tables and their columns, functions, and words of SQL, which are in capitals
    or small letters as the beginning is."""
    begin = word_before(text)
    if not begin:
        return []
    tables = catalog.tables()
    names = {each.path[2] for each in tables}
    for each in tables:
        names |= {field.name for field in each.row_type.fields}
    own = _beginning_with(begin, names)
    words = _beginning_with(begin, {*FUNCTIONS, *RESERVED, *(each.name for each in catalog.functions())})
    return [*own, *(each if begin != begin.lower() else each.lower() for each in words)]


def _beginning_with(begin: str, words: Iterable[str]) -> list[str]:
    return sorted(each for each in words if each.lower().startswith(begin.lower()) and each != begin)
