"""Hints of a SELECT: what those that have an effect say, by the names of its tables."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence

from flinkray.errors import did_you_mean
from flinkray.tables.plans.lookup_hints import NAMES_OF_TABLE, LookupRetry, lookup_hint
from flinkray.tables.syntax.queries import Hint
from flinkray.time.durations import to_millis
from flinkray.types.records import Millis

logger = logging.getLogger(__name__)

STATE_TTL = "STATE_TTL"
JOIN_STRATEGIES = frozenset({"BROADCAST", "NEST_LOOP", "SHUFFLE_HASH", "SHUFFLE_MERGE"})
"""Hints that choose how Flink joins in batch mode. Here, as in Flink's streaming mode, a join is done in one way."""
LOOKUP = "LOOKUP"
_OF_TABLES = frozenset({"OPTIONS"})
_KNOWN = JOIN_STRATEGIES | _OF_TABLES | {STATE_TTL, LOOKUP}
_ASKED_AT_ONCE = "a table is asked once for all keys of a batch, and rows stay in order"


class WrongHintError(ValueError):
    """A hint that means nothing."""

    def __init__(self, hint: Hint, message: str) -> None:
        super().__init__(message)
        self.hint = hint


def state_ttls(hints: Sequence[Hint], sides: Sequence[Collection[str]]) -> tuple[Millis | None, ...]:
    """How long state of each input of an operator is kept, in milliseconds; None: as long as the program says.

    As in Flink, an input that is several tables joined has no name of its own.

    Args:
        sides: the names of the tables of each input.
    Raises:
        WrongHintError: a hint gives no duration.
    """
    given = {name: ttl for hint in hints if hint.name == STATE_TTL for name, ttl in _ttls(hint).items()}
    return tuple(given.get(next(iter(side))) if len(side) == 1 else None for side in sides)


def check_hints(hints: Sequence[Hint], tables: Collection[str], looked_up: Collection[str]) -> list[str]:
    """Sentences that say which hints have no effect.

    Args:
        tables: the names of tables in FROM.
        looked_up: those of them that are joined FOR SYSTEM_TIME AS OF a processing time.
    Raises:
        WrongHintError: there is no such hint, or it stands in the wrong place, or names none of the tables, or what it
            gives cannot be taken.
    """
    found = []
    for hint in hints:
        if hint.name not in _KNOWN:
            raise WrongHintError(
                hint, f"no hint {hint.name!r}{did_you_mean(hint.name, _KNOWN)}; there are {', '.join(sorted(_KNOWN))}"
            )
        if hint.name in _OF_TABLES:
            raise WrongHintError(hint, f"{hint.name} stands behind the name of its table, not behind SELECT")
        if hint.name in JOIN_STRATEGIES:
            _check_names(hint, [value if name is None else name for name, value in hint.options], tables)
            found.append(f"the hint {hint.name} has no effect: tables are joined in one way")
        elif hint.name == STATE_TTL:
            _check_names(hint, list(_ttls(hint)), tables)
        elif hint.name == LOOKUP:
            found += _check_lookup(hint, tables, looked_up)
    return found


def warn_of_hints(sentences: Iterable[str]) -> None:
    """Says in the log what `check_hints` found."""
    for sentence in sentences:
        logger.warning("%s", sentence)


def hints_of_lookup(hints: Sequence[Hint], tables: Collection[str]) -> tuple[Hint, ...]:
    """Those that say how one of the tables is asked."""
    found = (hint for hint in hints if hint.name == LOOKUP)
    return tuple(
        hint for hint in found if any(value in tables for name, value in hint.options if name in NAMES_OF_TABLE)
    )


def lookup_retry(hints: Sequence[Hint]) -> LookupRetry | None:
    """How the table of these hints is asked again, of which the first one counts; None: it is not."""
    return lookup_hint(hints[0].options).retry if hints else None


def _check_lookup(hint: Hint, tables: Collection[str], looked_up: Collection[str]) -> list[str]:
    try:
        found = lookup_hint(hint.options)
    except ValueError as error:
        raise WrongHintError(hint, str(error)) from None
    _check_names(hint, [found.table], tables)
    if found.table not in looked_up:
        raise WrongHintError(
            hint, f"LOOKUP names {found.table!r}, which is not joined FOR SYSTEM_TIME AS OF a processing time"
        )
    return [f"{name!r} of the hint LOOKUP has no effect: {_ASKED_AT_ONCE}" for name in found.without_effect]


def _ttls(hint: Hint) -> dict[str, Millis]:
    """The duration of each table that the hint names."""
    found = {}
    for name, text in hint.options:
        if name is None:
            raise WrongHintError(hint, f"STATE_TTL takes a table and a duration, 'orders' = '1 d', not {text!r}")
        try:
            found[name] = to_millis(text, f"STATE_TTL of {name!r}")
        except ValueError as error:
            raise WrongHintError(hint, str(error)) from None
    return found


def _check_names(hint: Hint, names: Sequence[str], tables: Collection[str]) -> None:
    unknown = [name for name in names if name not in tables]
    if unknown:
        raise WrongHintError(
            hint, f"{hint.name} names {unknown[0]!r}, which is no table in FROM; tables: {', '.join(sorted(tables))}"
        )
