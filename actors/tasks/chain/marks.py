"""Operators' names in the stacks that a profiler sees."""

from __future__ import annotations

from functools import lru_cache
from types import FunctionType
from typing import Any

from actors.protocol.client_requests import OPERATOR_MARK


def mark(owner: Any, methods: tuple[str, ...], operator_name: str) -> None:
    """Has those methods of one object, through which something gets to an operator, say so in their qualified names.

    Who looks at the stack of another thread may not look at its variables, so the name has to be that of the code. The
    methods are otherwise the same, and cost what they did. The object gets a class of its own for that: methods that it
    had itself would refer to it, so that its memory would not go with its last user.
    """
    owner.__class__ = _marked(type(owner), methods, operator_name)  # type: ignore[arg-type]


@lru_cache(maxsize=1_000)
def _marked(base: type, methods: tuple[str, ...], operator_name: str) -> type:
    return type(base.__name__, (base,), {name: _named(getattr(base, name), operator_name) for name in methods})


def _named(function: FunctionType, operator_name: str) -> FunctionType:
    code = function.__code__.replace(co_qualname=f"{OPERATOR_MARK}{operator_name}")
    return FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
