"""What a compiled plan holds, and its JSON.

The nodes are those that operators are made of: all rules have been applied to them, so that those of a later version
change nothing. Each has a number and the uids of its operators; a version that would make other ones refuses the plan.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from flinkray.errors import InvalidProgramError
from flinkray.tables.compiled.catalog_objects import PlanFunction, PlanTable
from flinkray.tables.compiled.values import NODES, Json, fields_to_json, inputs_of, struct_from_json
from flinkray.tables.lowering.contract import TableOptions
from flinkray.tables.plans.expressions import Plan
from flinkray.tables.plans.nodes import Insert
from flinkray.tables.plans.tables import Table, TablePath

VERSION = 1
"""Of the form of plans in files. Counted up where what is written means something else than before."""
Uids = Mapping[int, tuple[str, ...]]
"""The uids of the operators that are made for each node, by its number."""


class PlanContent(Struct, frozen=True):
    """What INSERTs that are one job compute, as operators are made of it."""

    inserts: tuple[Insert, ...]
    tables: tuple[PlanTable, ...]
    functions: tuple[PlanFunction, ...]
    options: TableOptions
    """The options that it was planned with, which hold when it is executed too."""
    uids: Uids
    compiled_by: str
    """The version of flinkray."""


def own_version() -> str:
    """The version of flinkray that runs."""
    try:
        return version("flinkray")
    except PackageNotFoundError:
        return "unknown"


def numbered(inserts: Sequence[Insert]) -> dict[Plan, int]:
    """All nodes of plans with their numbers, from 1: inputs before what reads them, equal ones once."""
    numbers: dict[Plan, int] = {}

    def visit(plan: Plan) -> None:
        if plan not in numbers:
            for each in plan.inputs:
                visit(each)
            numbers[plan] = len(numbers) + 1

    for insert in inserts:
        visit(insert)
    return numbers


# -- as text


def to_text(content: PlanContent) -> str:
    """The plan as JSON.

    Raises:
        InvalidProgramError: it has a value that no JSON is known of.
    """
    numbers = numbered(content.inserts)
    places = {entry.table: place for place, entry in enumerate(content.tables)}
    read = {
        "version": VERSION,
        "flinkray": content.compiled_by,
        "options": msgspec.to_builtins(content.options),
        "tables": list(map(_table_to_json, content.tables)),
        "functions": [fields_to_json(each) for each in content.functions],
        "nodes": [_node_to_json(plan, numbers, places, content.uids) for plan in numbers],
        "inserts": [numbers[insert] for insert in content.inserts],
    }
    return json.dumps(read, indent=2, ensure_ascii=False, allow_nan=False)


def _table_to_json(entry: PlanTable) -> Json:
    table = entry.table
    read: dict[str, Json] = {"name": entry.name, "path": table.path}
    if entry.is_temporary:
        read["temporary"] = True
    read |= fields_to_json(table, but=("path", "options"))
    if entry.has_options:
        read["options"] = {key: value for key, value in table.options if key not in entry.secrets}
    if entry.secrets:
        read["secrets"] = entry.secrets
    if entry.secrets_of_hint:
        read["hint-secrets"] = entry.secrets_of_hint
    hint = {key: value for key, value in entry.hint if key not in entry.secrets_of_hint}
    return read | ({"hint": hint} if hint else {})


def _node_to_json(plan: Plan, numbers: Mapping[Plan, int], places: Mapping[Table, int], uids: Uids) -> Json:
    cls = type(plan)
    if cls.__name__ not in NODES:
        raise InvalidProgramError(f"a plan in a file cannot hold a {cls.__name__}")
    number, table = numbers[plan], getattr(plan, "table", None)
    read: dict[str, Json] = {"id": number, "node": cls.__name__}
    if plan.inputs:
        read["inputs"] = [numbers[each] for each in plan.inputs]
    if table is not None:
        read["table"] = places[table]
    read |= fields_to_json(plan, but=(*inputs_of(cls), "table"))
    read["output"] = str(plan.row_type)
    if number in uids:
        read["operators"] = uids[number]
    return read


# -- from text


def from_text(text: str, where: str) -> PlanContent:
    """The plan of a text that `to_text` gave. Its tables lack the options that it does not hold.

    Args:
        where: what errors call the plan.
    Raises:
        InvalidProgramError: it is none, or of a version that is not known here.
    """
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidProgramError(f"{where} is no JSON: {error}") from None
    if not isinstance(read, dict) or not {"version", "flinkray", "nodes"} <= read.keys():
        raise InvalidProgramError(f"{where} is no compiled plan: COMPILE PLAN and compile_plan_sql make them")
    by = read["flinkray"]
    if read["version"] != VERSION:
        raise InvalidProgramError(
            f"{where} is of version {read['version']!r} of such plans, made by flinkray {by}, and flinkray "
            f"{own_version()} reads version {VERSION}: compile its statement again"
        )
    try:
        return _content(read)
    except (ValueError, TypeError, LookupError, AttributeError, msgspec.ValidationError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise InvalidProgramError(
            f"{where}, made by flinkray {by}, cannot be read by flinkray {own_version()}: {what}. Compile its "
            "statement again"
        ) from None


def _content(read: dict[str, Any]) -> PlanContent:
    tables = tuple(map(_table_from_json, read["tables"]))
    found: dict[int, Plan] = {}
    uids: dict[int, tuple[str, ...]] = {}
    for node in read["nodes"]:
        plan = _node_from_json(node, found, tables)
        if str(plan.row_type) != node["output"]:
            raise ValueError(f"node {node['id']} has the columns {node['output']} in it, and {plan.row_type} here")
        found[node["id"]] = plan
        if "operators" in node:
            uids[node["id"]] = tuple(node["operators"])
    inserts = tuple(found[number] for number in read["inserts"])
    if not all(isinstance(each, Insert) for each in inserts) or not inserts:
        raise ValueError("it inserts nothing")
    if numbered(inserts) != {plan: number for number, plan in found.items()}:  # type: ignore[arg-type]
        raise ValueError("its nodes are not numbered in their order")
    return PlanContent(
        inserts=inserts,  # type: ignore[arg-type]
        tables=tables,
        functions=tuple(struct_from_json(PlanFunction, each) for each in read["functions"]),
        options=msgspec.convert(_known_options(read["options"]), TableOptions),
        uids=uids,
        compiled_by=read["flinkray"],
    )


def _known_options(read: dict[str, Json]) -> dict[str, Json]:
    for name in read:
        if name not in TableOptions.__struct_fields__:
            raise ValueError(f"nothing is known of its option {name!r}")
    return read


def _table_from_json(read: dict[str, Json]) -> PlanTable:
    own = {
        key: value for key, value in read.items() if key in Table.__struct_fields__ and key not in ("path", "options")
    }
    options = msgspec.convert(read.get("options", {}), dict[str, str])
    path = msgspec.convert(read["path"], TablePath)
    return PlanTable(
        table=struct_from_json(Table, own, path=path, options=tuple(options.items())),
        name=msgspec.convert(read["name"], TablePath | None),
        is_temporary=read.get("temporary") is True,
        has_options="options" in read,
        secrets=msgspec.convert(read.get("secrets", ()), tuple[str, ...]),
        hint=tuple(msgspec.convert(read.get("hint", {}), dict[str, str]).items()),
        secrets_of_hint=msgspec.convert(read.get("hint-secrets", ()), tuple[str, ...]),
    )


def _node_from_json(read: dict[str, Json], found: Mapping[int, Plan], tables: Sequence[PlanTable]) -> Plan:
    if read["node"] not in NODES:
        raise ValueError(f"there is no node {read['node']!r} here")
    cls = NODES[read["node"]]
    given: dict[str, Any] = dict(zip(inputs_of(cls), (found[each] for each in read.get("inputs", ())), strict=True))
    if "table" in read:
        given["table"] = tables[read["table"]].table
    not_own = ("id", "node", "inputs", "table", "output", "operators")
    own = {key: value for key, value in read.items() if key not in not_own}
    plan: Plan = struct_from_json(cls, own, **given)
    return plan


# -- with other tables


def with_tables(content: PlanContent, tables: Sequence[Table]) -> PlanContent:
    """The same plan with other options of its tables, which are given in their order."""
    changed = dict(zip((entry.table for entry in content.tables), tables, strict=True))

    def change(plan: Plan) -> Plan:
        inputs = tuple(map(change, plan.inputs))
        if inputs != plan.inputs:
            plan = plan.with_inputs(inputs)
        table = getattr(plan, "table", None)
        return plan if table is None else replace(plan, table=changed[table])

    entries = tuple(replace(entry, table=changed[entry.table]) for entry in content.tables)
    inserts: Iterator[Any] = map(change, content.inserts)
    return replace(content, inserts=tuple(inserts), tables=entries)
