"""Queries and relations to text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch

from flinkray.tables.syntax.expressions import CommonTable, Expression, Query, QueryBody, Row
from flinkray.tables.syntax.queries import (
    Alias,
    DerivedTable,
    ExplicitTable,
    GroupingSets,
    Hint,
    Join,
    MatchRecognize,
    Pattern,
    Relation,
    Select,
    SetOperation,
    TableFunction,
    TableReference,
    Unnest,
    Values,
)
from flinkray.tables.syntax.unparsing.expressions import (
    expression_text,
    name_text,
    names_text,
    order_item_text,
    path_text,
    string_text,
    window_text,
    write_queries_with,
)


def query_text(query: Query) -> str:
    """A query, with a line for each of its clauses and relations, as Flink writes it."""
    text = _body_text(query.body)
    if query.common_tables:
        tables = ", ".join(_common_table_text(each) for each in query.common_tables)
        text = f"WITH {'RECURSIVE ' if query.recursive else ''}{tables} {text}"
    parts = [text]
    if query.order_by:
        parts.append(f"ORDER BY {', '.join(order_item_text(item) for item in query.order_by)}")
    if query.offset is not None:
        parts.append(f"OFFSET {expression_text(query.offset)} ROWS")
    if query.limit is not None:
        parts.append(f"FETCH NEXT {expression_text(query.limit)} ROWS ONLY")
    return "\n".join(parts)


def _common_table_text(table: CommonTable) -> str:
    columns = f" {names_text(table.columns)}" if table.columns else ""
    return f"{name_text(table.name)}{columns} AS ({query_text(table.query)})"


def _body_text(body: QueryBody) -> str:
    if isinstance(body, Query):
        return f"({query_text(body)})"
    if isinstance(body, SetOperation):
        kind = f"{body.kind} ALL" if body.all else body.kind
        return f"{_body_text(body.left)}\n{kind}\n{_body_text(body.right)}"
    if isinstance(body, Values):
        return "VALUES " + ",\n".join(expression_text(each) for each in body.rows)
    if isinstance(body, ExplicitTable):
        return f"TABLE {path_text(body.path)}"
    assert isinstance(body, Select)
    return _select_text(body)


def _list(expressions: Iterable[Expression]) -> str:
    return ", ".join(expression_text(each) for each in expressions)


def _select_text(select: Select) -> str:
    items = [
        expression_text(item.expression) + ("" if item.alias is None else f" AS {name_text(item.alias)}")
        for item in select.items
    ]
    words = ["SELECT", *hints_text(select.hints), *(["DISTINCT"] if select.distinct else []), ", ".join(items)]
    parts = [" ".join(words)]
    if select.source is not None:
        parts.append(f"FROM {relation_text(select.source)}")
    if select.where is not None:
        parts.append(f"WHERE {expression_text(select.where)}")
    if select.group_by is not None:
        parts.append(f"GROUP BY {', '.join(_grouping_text(each) for each in select.group_by)}")
    if select.having is not None:
        parts.append(f"HAVING {expression_text(select.having)}")
    if select.windows:
        windows = [f"{name_text(each.name)} AS {window_text(each.window)}" for each in select.windows]
        parts.append(f"WINDOW {', '.join(windows)}")
    if select.qualify is not None:
        parts.append(f"QUALIFY {expression_text(select.qualify)}")
    return "\n".join(parts)


def _grouping_text(item: Expression | GroupingSets) -> str:
    if isinstance(item, GroupingSets):
        return f"{item.kind}({', '.join(_grouping_text(each) for each in item.items)})"
    text = expression_text(item)
    return text.removeprefix("ROW") if isinstance(item, Row) else text


def hints_text(hints: tuple[Hint, ...]) -> list[str]:
    """Hints in their comment, or nothing."""
    if not hints:
        return []
    return [f"/*+ {', '.join(_hint_text(hint) for hint in hints)} */"]


def _hint_text(hint: Hint) -> str:
    options = [
        string_text(value) if key is None else f"{string_text(key)} = {string_text(value)}"
        for key, value in hint.options
    ]
    return f"{hint.name}({', '.join(options)})" if options else hint.name


# -- relations


@singledispatch
def relation_text(relation: Relation) -> str:
    """A relation with its alias."""
    raise NotImplementedError(type(relation).__name__)


def _alias(text: str, alias: Alias | None) -> str:
    if alias is None:
        return text
    columns = f" {names_text(alias.columns)}" if alias.columns else ""
    return f"{text} AS {name_text(alias.name)}{columns}"


@relation_text.register
def _(relation: TableReference) -> str:
    parts = [path_text(relation.path), *hints_text(relation.hints)]
    if relation.as_of is not None:
        parts.append(f"FOR SYSTEM_TIME AS OF {expression_text(relation.as_of, 32)}")
    return _alias(" ".join(parts), relation.alias)


@relation_text.register
def _(relation: DerivedTable) -> str:
    lateral = "LATERAL " if relation.lateral else ""
    return _alias(f"{lateral}({query_text(relation.query)})", relation.alias)


@relation_text.register
def _(relation: TableFunction) -> str:
    lateral = "LATERAL " if relation.lateral else ""
    return _alias(f"{lateral}TABLE({expression_text(relation.call)})", relation.alias)


@relation_text.register
def _(relation: Unnest) -> str:
    ordinality = " WITH ORDINALITY" if relation.with_ordinality else ""
    return _alias(f"UNNEST({_list(relation.expressions)}){ordinality}", relation.alias)


@relation_text.register
def _(relation: Join) -> str:
    left, right = relation_text(relation.left), relation_text(relation.right)
    if isinstance(relation.left, Join) and relation.left.kind == "COMMA" and relation.kind != "COMMA":
        left = f"({left})"
    if isinstance(relation.right, Join) and (relation.kind != "COMMA" or relation.right.kind == "COMMA"):
        right = f"({right})"
    if relation.kind == "COMMA":
        return f"{left},\n{right}"
    words = "NATURAL " if relation.natural else ""
    text = f"{left}\n{words}{relation.kind} JOIN {right}"
    if relation.condition is not None:
        text += f" ON {expression_text(relation.condition)}"
    return text + (f" USING {names_text(relation.using)}" if relation.using else "")


@relation_text.register
def _(relation: MatchRecognize) -> str:
    parts = []
    if relation.partition_by:
        parts.append(f"PARTITION BY {_list(relation.partition_by)}")
    if relation.order_by:
        parts.append(f"ORDER BY {', '.join(order_item_text(item) for item in relation.order_by)}")
    if relation.measures:
        measures = [f"{expression_text(each.expression)} AS {name_text(each.name)}" for each in relation.measures]
        parts.append(f"MEASURES {', '.join(measures)}")
    parts.append("ALL ROWS PER MATCH" if relation.all_rows else "ONE ROW PER MATCH")
    if relation.after:
        where = relation.after if relation.after == "PAST LAST ROW" else f"TO {relation.after}"
        variable = "" if relation.after_variable is None else f" {name_text(relation.after_variable)}"
        parts.append(f"AFTER MATCH SKIP {where}{variable}")
    parts.append(f"PATTERN ({_pattern_text(relation.pattern)})")
    if relation.within is not None:
        parts.append(f"WITHIN {expression_text(relation.within)}")
    if relation.subsets:
        subsets = [f"{name_text(each.name)} = {names_text(each.variables)}" for each in relation.subsets]
        parts.append(f"SUBSET {', '.join(subsets)}")
    definitions = [f"{name_text(each.variable)} AS {expression_text(each.condition)}" for each in relation.definitions]
    parts.append(f"DEFINE {', '.join(definitions)}")
    source = relation_text(relation.source)
    if isinstance(relation.source, Join):
        source = f"({source})"
    return _alias(f"{source} MATCH_RECOGNIZE ({' '.join(parts)})", relation.alias)


def _pattern_text(pattern: Pattern) -> str:
    return _part_text(pattern) + _quantifier_text(pattern)


def _part_text(pattern: Pattern) -> str:
    parts = [_pattern_text(part) for part in pattern.parts]
    is_once = (pattern.least, pattern.most) == (1, 1)
    if pattern.kind == "variable" and pattern.variable is not None:
        return name_text(pattern.variable)
    if pattern.kind == "sequence":
        wrapped = [
            f"({text})" if part.kind == "choice" and _is_once(part) else text
            for part, text in zip(pattern.parts, parts, strict=True)
        ]
        text = " ".join(wrapped)
        return text if is_once else f"({text})"
    if pattern.kind == "choice":
        return " | ".join(parts) if is_once else f"({' | '.join(parts)})"
    if pattern.kind == "permute":
        return f"PERMUTE({', '.join(parts)})"
    if pattern.kind == "exclude":
        return f"{{- {parts[0]} -}}"
    return {"start": "^", "end": "$"}[pattern.kind]


def _is_once(pattern: Pattern) -> bool:
    return (pattern.least, pattern.most) == (1, 1)


def _quantifier_text(pattern: Pattern) -> str:
    bounds = (pattern.least, pattern.most)
    if bounds == (1, 1):
        return ""
    known = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    exact = (
        f"{{{pattern.least}}}"
        if pattern.least == pattern.most
        else f"{{{pattern.least}, {'' if pattern.most is None else pattern.most}}}"
    )
    return known.get(bounds, exact) + ("?" if pattern.reluctant else "")


write_queries_with(query_text)
