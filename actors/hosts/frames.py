"""What other threads are doing, without a danger to them."""

from __future__ import annotations

import gc
import sys
from itertools import accumulate, chain, islice, repeat, takewhile
from operator import attrgetter, itemgetter
from types import CodeType

_code_and_line = attrgetter("f_code", "f_lineno")

# Before 3.12 objects are collected while others are made, and what they run at their end may let other threads run.
_COLLECTS_ANYWHERE = sys.version_info < (3, 12)


def frames_of(ident: int) -> list[tuple[CodeType, int]]:
    """The code and line of each frame of a thread, innermost first; empty: it has ended."""
    is_paused = _COLLECTS_ANYWHERE and gc.isenabled()
    if is_paused:
        gc.disable()
    try:
        return [(code, line or code.co_firstlineno) for code, line in _walk(ident)]
    except KeyError:
        return []
    finally:
        if is_paused:
            gc.enable()


def _walk(ident: int) -> list[tuple[CodeType, int | None]]:
    """The frames of a thread that goes on must not be followed: in CPython 3.11 that ends the process now and then
    (python/cpython#111363). The interpreter lets other threads run only between instructions, so all is one call, of
    functions in C alone: take the frame of the thread, go on with `f_back` of each as long as there is one.
    """
    innermost = islice(map(itemgetter(ident), iter(sys._current_frames, None)), 1)
    frames = takewhile(bool, accumulate(chain(innermost, repeat("f_back")), getattr))
    return list(map(_code_and_line, frames))
