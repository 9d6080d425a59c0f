"""From INSERTs to compiled plans, and from these to sinks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from flinkray.config.configuration import Configuration
from flinkray.config.options import RUNTIME_MODE
from flinkray.errors import InvalidProgramError
from flinkray.redaction import is_secret
from flinkray.tables.catalog import UNREGISTERED, Catalog
from flinkray.tables.compiled.catalog_objects import ALL, PlanFunction, PlanTable, known_functions, with_options
from flinkray.tables.compiled.contents import PlanContent, Uids, numbered, own_version, with_tables
from flinkray.tables.environment.programs import Program, hinted
from flinkray.tables.plans.expressions import Plan
from flinkray.tables.plans.nodes import Insert, Scan
from flinkray.tables.plans.tables import Table, TablePath
from flinkray.tables.syntax.nodes import Node
from flinkray.tables.types.logical import LogicalType
from flinkray.transformations.transformation import PhysicalTransformation


def content_of(
    plans: Sequence[Insert], program: Program, catalog: Catalog, streams: Collection[TablePath], strategy: str
) -> PlanContent:
    """INSERTs as a plan, whose uids are not known yet.

    Args:
        program: has planned what the plans insert.
        streams: the tables that are rows of this process.
        strategy: as `table.plan.compile.catalog-objects` has it.
    Raises:
        InvalidProgramError: a plan in a file cannot have a table or function.
    """
    inserts = []
    for plan in plans:
        program.check_hints(plan.hints)
        table = hinted(plan.table, plan.hints)
        inserts.append(replace(plan, input=program.planned(plan.input), table=table, hints=()))
    for each in numbered(inserts):
        if isinstance(each, Scan) and each.table.path in streams:
            raise InvalidProgramError(
                f"a plan in a file cannot read {each.table.path[2]!r}, which is a stream or rows of this process: read "
                "a table with a connector"
            )
    written = ((insert.table, plan.table) for insert, plan in zip(inserts, plans, strict=True))
    entries = {table: _entry(table, named, catalog, strategy) for table, named in (*program.scanned, *written)}
    names = sorted(set(_function_names(tuple(inserts))))
    functions = [_function(name, catalog) for name in names]
    return PlanContent(
        inserts=tuple(inserts),
        tables=tuple(entries.values()),
        functions=tuple(each for each in functions if each is not None),
        options=program.options,
        uids={},
        compiled_by=own_version(),
    )


def _entry(table: Table, named: Table, catalog: Catalog, strategy: str) -> PlanTable:
    """What a plan has of a table, which statements name as `named`."""
    has_name = not named.path[2].startswith(UNREGISTERED)
    is_temporary = has_name and catalog.is_temporary(named.path)
    has_options = not has_name or (strategy == ALL and not is_temporary)
    secrets = tuple(key for key, value in table.options if is_secret(key, value)) if has_options else ()
    hint = tuple(each for each in table.options if each not in named.options)
    if secrets and not has_name:
        raise InvalidProgramError(
            f"a plan in a file does not hold secret options, such as {secrets[0]!r} of a table that no catalog has: "
            "give it a name, with create_table"
        )
    return PlanTable(
        table=table,
        name=named.path if has_name else None,
        is_temporary=is_temporary,
        has_options=has_options,
        secrets=secrets,
        hint=hint,
        secrets_of_hint=tuple(key for key, value in hint if is_secret(key, value)),
    )


def _function_names(value: Any) -> Iterator[str]:
    """The names of all functions that are called in a plan."""
    if isinstance(value, tuple):
        for each in value:
            yield from _function_names(each)
    elif isinstance(value, Struct) and not isinstance(value, LogicalType | Table):
        for field in value.__struct_fields__:
            own = getattr(value, field)
            if field == "function":
                yield own
            else:
                yield from _function_names(own)


def _function(name: str, catalog: Catalog) -> PlanFunction | None:
    """The function of the user's that has a name in a plan; None: it is a built-in one.

    Raises:
        InvalidProgramError: it has a name in this process alone.
    """
    function = catalog.function((name,))
    if function is None or function.name != name:
        return None
    if name.startswith("*"):
        own = name.split("*")[1]
        raise InvalidProgramError(
            f"a plan in a file cannot call {own!r} as it is: create_temporary_function({own!r}, {own}), and call "
            f"call({own!r}, ...)"
        )
    return PlanFunction.of(function)


def as_tables_are_now(content: PlanContent, catalog: Catalog, strategy: str) -> PlanContent:
    """The plan with the options that its tables have now.

    Args:
        strategy: as `table.plan.restore.catalog-objects` has it.
    Raises:
        InvalidProgramError: a table has changed, or is missing.
    """
    return with_tables(content, [with_options(entry, catalog, strategy) for entry in content.tables])


def lowered(
    content: PlanContent, catalog: Catalog, configuration: Configuration, statements: Sequence[tuple[Node, str]] = ()
) -> tuple[list[PhysicalTransformation], Program]:
    """The sinks of a plan, and the program that they are in.

    Args:
        statements: of the INSERTs, with their texts, for errors; none: they are not known.
    Raises:
        InvalidProgramError: a function or table has changed, or the program runs in another mode than the plan was
            compiled for.
    """
    functions: Mapping[str, Any] = known_functions(content.functions, catalog)
    mode = configuration.get(RUNTIME_MODE)
    program = Program(
        functions.get,
        {},
        replace(content.options, is_batch=mode == "batch"),
        [insert.input for insert in content.inserts],
        statements,
        is_automatic=mode == "automatic",
        numbers=numbered(content.inserts),
    )
    if program.options.is_batch != content.options.is_batch:
        then, now = ("batch", "streaming") if content.options.is_batch else ("streaming", "batch")
        raise InvalidProgramError(
            f"the plan was compiled in {then} mode, and the program runs in {now} mode: SET {RUNTIME_MODE.key!r} = "
            f"{then!r}"
        )
    known = statements or [(Node(), "")] * len(content.inserts)
    sinks = [program.insert(insert, *each) for insert, each in zip(content.inserts, known, strict=True)]
    return sinks, program


def check_uids(content: PlanContent, made: Uids) -> None:
    """
    Raises:
        InvalidProgramError: other operators have been made than the plan was compiled to.
    """
    if made == content.uids:
        return
    nodes: dict[int, Plan] = {number: plan for plan, number in numbered(content.inserts).items()}
    number = min(each for each in {*made, *content.uids} if made.get(each) != content.uids.get(each))
    then, now = (", ".join(uids.get(number, ())) or "none" for uids in (content.uids, made))
    raise InvalidProgramError(
        f"flinkray {own_version()} makes other operators of the plan than {content.compiled_by}, which compiled it: of "
        f"its {type(nodes[number]).__name__}, node {number}, {now} and not {then}. Their state would not be found: "
        "compile its statement again, and start it without state"
    )


def target_names(content: PlanContent) -> list[str]:
    """The full names of the tables that rows go into."""
    labels = {entry.table: entry.label for entry in content.tables}
    return [labels[insert.table] for insert in content.inserts]
