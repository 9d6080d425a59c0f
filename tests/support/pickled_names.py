"""What pickles name: the modules that are in persisted bytes, and the registered names."""

from __future__ import annotations

import base64
import pickletools
import re
import warnings
from collections.abc import Iterator

from flinkray.persistence import named

_PICKLE = re.compile(rb"\x80[\x04\x05]\x95")
_IN_JSON = re.compile(rb'"(?:inline|coordinator|ended)": ?"([A-Za-z0-9+/=]+)"')
_NAMED = (named.__module__, named.__qualname__)
Global = tuple[str, str]


def globals_in(data: bytes) -> tuple[set[Global], set[str]]:
    """(module, qualified name) of all classes and functions in the pickles that begin somewhere in the bytes, also in
    other pickles and in Base64; and the names in place of others."""
    found: set[Global] = set()
    names: set[str] = set()
    for content in (data, *map(base64.b64decode, _IN_JSON.findall(data))):
        for start in _PICKLE.finditer(content):
            for each in _in_pickle(content[start.start() :]):
                if isinstance(each, str):
                    names.add(each)
                else:
                    found.add(each)
    return found, names


def _in_pickle(data: bytes) -> list[Global | str]:
    with warnings.catch_warnings():
        # Bytes of a file of RocksDB may look like the beginning of a pickle, and like a text with wrong escapes in it.
        warnings.simplefilter("ignore", DeprecationWarning)
        return list(_of_pickle(data))


def _of_pickle(data: bytes) -> Iterator[Global | str]:
    """What stands on pickle's stack is followed only as far as text goes."""
    stack: list[object] = []
    memo: list[object] = []
    try:
        for opcode, argument, _ in pickletools.genops(data):
            match opcode.name:
                case "SHORT_BINUNICODE" | "BINUNICODE":
                    stack.append(argument)
                case "MEMOIZE":
                    memo.append(stack[-1])
                case "BINGET" | "LONG_BINGET":
                    stack.append(memo[argument])
                case "STACK_GLOBAL":
                    reached = (str(stack[-2]), str(stack[-1]))
                    yield reached[1] if reached[0] == _NAMED[0] and "/" in reached[1] else reached
                    stack[-2:] = [reached]
                case "TUPLE1":
                    stack[-1] = (stack[-1],)
                case "REDUCE":
                    function, arguments = stack[-2:]
                    if function == _NAMED and isinstance(arguments, tuple):
                        yield str(arguments[0])
                    stack[-2:] = [None]
                case _:
                    stack.append(None)
    except (ValueError, IndexError, UnicodeDecodeError):
        return  # it only looked like a pickle
