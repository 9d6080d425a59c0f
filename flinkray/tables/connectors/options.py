"""The options of one table: asked for by key and type, and all that nothing asks for is an error."""

from __future__ import annotations

import functools
import importlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar, overload

from flinkray.config.parsers import duration as parse_duration
from flinkray.config.parsers import number as parse_number
from flinkray.config.parsers import text as parse_text
from flinkray.config.parsers import truth as parse_truth
from flinkray.config.parsers import whole_number as parse_whole_number
from flinkray.connectors.lookup import FOR_EVER, LookupCache
from flinkray.errors import InvalidProgramError, did_you_mean

T = TypeVar("T")
D = TypeVar("D")
logger = logging.getLogger(__name__)
CONNECTOR = "connector"
_MOST_ROWS = 2**62
"""Where nothing says how many rows are cached."""
_SPELLED_ALIKE = 0.8
"""How alike an option that nobody has read is to a missing one whose misspelling it is; `path` and `pth` are by 0.86,
`fields.n.start` and `fields.n.end` by less."""
_SIZE = re.compile(r"(\d+)\s*(?:b|bytes|([kmgt])b?)?")


class ConnectorOptions:
    """Reads the options of a table. A connector asks for each of its own, and then calls `check_all_read`.

    Args:
        table: the name of the table, for messages.
    """

    def __init__(self, table: str, options: Mapping[str, str]) -> None:
        self.table = table
        self._options = dict(options)
        self._known: dict[str, None] = {}

    @property
    def connector(self) -> str:
        """The name of the connector; empty where there is none."""
        return self._options.get(CONNECTOR, "")

    def has(self, key: str) -> bool:
        """Whether an option is given, which counts as knowing it."""
        self._known[key] = None
        return key in self._options

    def fail(self, message: str) -> InvalidProgramError:
        """The error that says what is wrong with the table."""
        return InvalidProgramError(f"table {self.table!r} ('connector' = '{self.connector}'): {message}")

    @overload
    def read(self, key: str, parse: Callable[[object], T]) -> T | None: ...
    @overload
    def read(self, key: str, parse: Callable[[object], T], default: T) -> T: ...
    def read(self, key: str, parse: Callable[[object], T], default: Any = None) -> Any:
        """The value of an option, or the default.

        Raises:
            InvalidProgramError: it cannot be read as its type.
        """
        self._known[key] = None
        if key not in self._options:
            return default
        try:
            return parse(self._options[key])
        except (TypeError, ValueError) as error:
            raise self.fail(f"option {key!r} cannot take {self._options[key]!r}: {error}") from error

    def text(self, key: str, default: str = "") -> str:
        return self.read(key, parse_text, default)

    def whole_number(self, key: str, default: int | None = None) -> int | None:
        return self.read(key, parse_whole_number, default)

    def number(self, key: str, default: float | None = None) -> float | None:
        return self.read(key, parse_number, default)

    def truth(self, key: str, default: bool = False) -> bool:
        return self.read(key, parse_truth, default)

    def millis(self, key: str, default: int | None = None) -> int | None:
        return self.read(key, parse_duration, default)

    def required(self, key: str) -> str:
        """The text of an option that has to be there.

        Raises:
            InvalidProgramError: it is not.
        """
        if not self.has(key):
            unread = [each for each in self._options if each != CONNECTOR and each not in self._known]
            similar = get_close_matches(key, unread, n=1, cutoff=_SPELLED_ALIKE)
            hint = f"; is {similar[0]!r} meant to be it?" if similar else ""
            raise self.fail(f"option {key!r} is missing{hint}")
        return self._options[key]

    def one_of(self, key: str, values: tuple[str, ...], default: str) -> str:
        """The text of an option that is one of these."""
        found = self.text(key, default)
        if found not in values:
            hint = did_you_mean(found, values)
            raise self.fail(f"option {key!r} cannot be {found!r}{hint}; it is one of {', '.join(values)}")
        return found

    def instance(self, key: str, arguments: Sequence[str] = ()) -> Any:
        """An object of the Python class that an option names, such as `shop.policies.Announce`."""
        path = self.required(key)
        module, _, name = path.rpartition(".")
        try:
            return getattr(importlib.import_module(module), name)(*arguments)
        except (ImportError, AttributeError, ValueError, TypeError) as error:
            raise self.fail(f"option {key!r} names no Python class that can be made: {path!r} ({error})") from error

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """All options whose keys begin with it, without it."""
        found = {key: value for key, value in self._options.items() if key.startswith(prefix)}
        self._known.update(dict.fromkeys(found))
        return {key.removeprefix(prefix): value for key, value in found.items()}

    def refuse(self, key: str, why: str) -> None:
        """An option of Flink's that nothing here carries out.

        Raises:
            InvalidProgramError: it is given.
        """
        if self.has(key):
            raise self.fail(f"option {key!r}: {why}")

    def has_no_effect(self, key: str, why: str) -> None:
        """Says, once in this process, that an option of Flink's, if it is given, changes no row here, and why."""
        if self.has(key):
            _say_once(f"option {key!r} of 'connector' = {self.connector!r} has no effect here: {why}")

    def check_all_read(self, but: tuple[str, ...]) -> None:
        """Raise unless the connector knows all options that are given.

        Args:
            but: what keys begin with that are for other uses of the table: of sinks where it is read.
        """
        for key in self._options:
            if key != CONNECTOR and key not in self._known and not key.startswith(but):
                known = sorted(self._known)
                raise self.fail(f"there is no option {key!r}{did_you_mean(key, known)}; options: {', '.join(known)}")


@functools.cache
def _say_once(sentence: str) -> None:
    logger.warning("%s", sentence)


def lookup_cache(options: ConnectorOptions) -> LookupCache:
    """What is remembered of a table that is looked up: nothing, unless 'lookup.cache' says so."""
    prefix = "lookup.partial-cache"
    is_cached = options.one_of("lookup.cache", ("NONE", "PARTIAL"), "NONE") == "PARTIAL"
    found = LookupCache(
        options.read(f"{prefix}.expire-after-write", parse_duration, FOR_EVER),
        options.read(f"{prefix}.max-rows", parse_whole_number, _MOST_ROWS),
        options.read(f"{prefix}.expire-after-access", parse_duration, FOR_EVER),
        options.truth(f"{prefix}.cache-missing-key", True),
    )
    return found if is_cached else LookupCache(0, found.rows)


def size_in_bytes(raw: object) -> int:
    """Flink's texts for sizes of memory, such as 128MB or `1 g`."""
    found = _SIZE.fullmatch(str(raw).strip().lower())
    if not found:
        raise ValueError("expected a size such as '128MB'")
    return int(found[1]) << 10 * "bkmgt".index(found[2] or "b")
