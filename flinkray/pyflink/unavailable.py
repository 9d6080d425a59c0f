"""What PyFlink has and this package cannot have: names whose import fails with a sentence that says what to use."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from flinkray.errors import InvalidProgramError


def unavailable(module: str, names: str, instead: str) -> Callable[[str], NoReturn]:
    """The `__getattr__` of a module whose names are not here.

    Args:
        names: separated by white space.
        instead: the end of the sentence, after "cannot be used: ".
    """
    known = frozenset(names.split())

    def missing(name: str) -> NoReturn:
        if name in known:
            raise InvalidProgramError(f"{name} cannot be used: {instead}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return missing
