"""Which aggregate of a snapshot is which of the program's: by name, function and columns.

So that a program whose aggregates have changed goes on with what fits, and is refused where it would go on with
another aggregate's state, or from nothing, without a word.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, json

from flinkray.errors import IncompatibleStateError, did_you_mean
from flinkray.expressions.tree import Column
from flinkray.windows.aggregates import Aggregate, Count

log = logging.getLogger(__name__)

Aggregates = Sequence[tuple[str, Aggregate]]

_FACTS = "aggregates"
"""The name of the facts in the metadata of a snapshot."""


class AggregateFacts(Struct, frozen=True):
    """What an aggregate of a snapshot was. Stored as JSON."""

    computes: str
    """The function and its columns, such as Sum('cents')."""
    origin: str = ""
    """What the program said about where its state came from, so that a snapshot of the program's own is known."""

    @staticmethod
    def of(aggregate: Aggregate) -> AggregateFacts:
        origin = ""
        if aggregate.starts_empty:
            origin = "from now on"
        elif aggregate.former_name is not None:
            origin = f"renamed from {aggregate.former_name}={text_of(_former(aggregate))}"
        return AggregateFacts(text_of(aggregate), origin)


def aggregate_columns(aggregate: Aggregate) -> tuple[object, ...]:
    """The columns, or expressions, that the aggregate reads."""
    if aggregate.column is None and isinstance(aggregate, Count):
        return ()
    by = getattr(aggregate, "by", None)
    return (aggregate.column,) if by is None else (aggregate.column, by)


def text_of(aggregate: Aggregate) -> str:
    """What the aggregate computes, as a program says it; equal where the state is."""
    columns = [column.name if isinstance(column, Column) else column for column in aggregate_columns(aggregate)]
    return f"{type(aggregate).__name__}({', '.join(map(repr, (*columns, *aggregate._parameters)))})"


def facts_metadata(aggregates: Aggregates) -> dict[str, bytes]:
    """What `stored_names` needs of the metadata of a snapshot."""
    return {_FACTS: json.encode({name: AggregateFacts.of(aggregate) for name, aggregate in aggregates})}


def stored_names(aggregates: Aggregates, metadata: Mapping[str, bytes], where: str) -> dict[str, str | None]:
    """For each of the program's aggregates the name under which a snapshot has its state; None: it starts empty.

    Args:
        where: names the operator in errors.
    Raises:
        IncompatibleStateError: an aggregate is another function or of another column than the one of that name in the
            snapshot, or the snapshot has none of that name and the program does not say where its state comes from.
    """
    if _FACTS not in metadata:
        return {name: _stored_with_function(name, each, metadata, where) for name, each in aggregates}
    stored = json.decode(metadata[_FACTS], type=dict[str, AggregateFacts])
    names = {name: _stored_name(name, each, stored, aggregates, where) for name, each in aggregates}
    dropped = stored.keys() - set(names.values()) - {""}  # what has no name is none of the user's
    if dropped:
        log.warning(
            "%s: the program does not have these any more, and drops their state: %s", where, _shown(stored, dropped)
        )
    return names


def _stored_name(
    name: str, aggregate: Aggregate, stored: Mapping[str, AggregateFacts], aggregates: Aggregates, where: str
) -> str | None:
    facts, same = AggregateFacts.of(aggregate), stored.get(name)
    if same == facts:
        return name
    if aggregate.starts_empty:
        return None
    if aggregate.former_name is not None and aggregate.former_name in stored:
        wanted, found = text_of(_former(aggregate)), stored[aggregate.former_name].computes
        if wanted != found:
            raise IncompatibleStateError(
                f"{where}: aggregate {name!r} is renamed from {aggregate.former_name!r} as {wanted}, and its state has "
                f"{aggregate.former_name}={found}; say was= in renamed_from where a column has another name now, or "
                "write .from_now_on() in its place to start it empty"
            )
        return aggregate.former_name
    if same is None:
        raise _missing(name, aggregate, stored, aggregates, where)
    if same.computes != facts.computes:
        way_out = f".renamed_from({name!r}, was={same.computes}) where only the column has another name now, or "
        raise IncompatibleStateError(
            f"{where}: aggregate {name!r} is {facts.computes} now, and its state has {name}={same.computes}; write "
            f"behind it {way_out if _is_of_function(same, aggregate) else ''}.from_now_on() to start it empty"
        )
    return name


def _missing(
    name: str, aggregate: Aggregate, stored: Mapping[str, AggregateFacts], aggregates: Aggregates, where: str
) -> IncompatibleStateError:
    """The error for an aggregate that the snapshot does not have."""
    computes, former = text_of(aggregate), aggregate.former_name
    shown = _shown(stored, stored.keys() - {""})
    if former is not None:
        return IncompatibleStateError(
            f"{where}: aggregate {name!r} is renamed from {former!r}, which its state does not have"
            f"{did_you_mean(former, stored)}; it has {shown}"
        )
    free = stored.keys() - {each for each, _ in aggregates} - {""}
    renamed = [each for each in sorted(free) if stored[each].computes == computes]
    similar = [each for each in sorted(free) if _is_of_function(stored[each], aggregate)]
    if renamed:
        go_on = f".renamed_from({renamed[0]!r}) behind it to go on with that, or "
    elif similar:
        go_on = f".renamed_from({similar[0]!r}, was={stored[similar[0]].computes}) behind it to go on with that, or "
    else:
        go_on = ""
    return IncompatibleStateError(
        f"{where}: its state has no aggregate {name!r}, which is {computes}; it has {shown}. Write {go_on}"
        f".from_now_on() {'' if go_on else 'behind it '}to start it empty, over the rows from now on"
    )


def _is_of_function(facts: AggregateFacts, aggregate: Aggregate) -> bool:
    """Whether only the column may be another one, as `renamed_from` allows."""
    return facts.computes.startswith(f"{type(aggregate).__name__}(") and not aggregate._parameters


def _stored_with_function(name: str, aggregate: Aggregate, metadata: Mapping[str, bytes], where: str) -> str | None:
    """As `stored_names`, in a snapshot of the first versions, which says what function each is, but not of what, and
    leaves some out that were empty."""
    source = aggregate.former_name or name
    function = metadata.get(f"aggregate {source!r}")
    if function is None or aggregate.starts_empty:
        return None
    if function.decode() != type(aggregate).__name__:
        raise IncompatibleStateError(
            f"{where}: its state was written for aggregate {source!r} {function.decode()}, and the program has "
            f"{type(aggregate).__name__} now; give it another name, or write .from_now_on() behind it to start it empty"
        )
    return source


def _former(aggregate: Aggregate) -> Aggregate:
    return aggregate if aggregate.former is None else aggregate.former  # type: ignore[return-value]


def _shown(stored: Mapping[str, AggregateFacts], names: Iterable[str]) -> str:
    return ", ".join(f"{name}={stored[name].computes}" for name in sorted(names))
