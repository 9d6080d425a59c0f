"""What PyFlink has and this package cannot have: names whose import, and methods whose call, fails with a sentence that
says what to use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

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


def refused(name: str, instead: str) -> Callable[..., NoReturn]:
    """A method that cannot be here; calling it raises a sentence that says what to use."""

    def method(*_arguments: Any, **_named: Any) -> NoReturn:
        raise InvalidProgramError(f"{name} cannot be used: {instead}")

    method.__name__ = name
    method.__doc__ = f"Cannot be used: {instead}."
    return method
