"""Random queries over three small tables that change, in SQL as Flink and as DuckDB read it.

Columns hold NULLs and values that repeat. Where the two answer differently on purpose, the text has both ways; what no
text makes equal (division, rounding, the order of ties) is not drawn.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

INT, TEXT, DECIMAL, TIME = "int", "text", "decimal", "time"
TYPES = (INT, INT, INT, TEXT, TEXT, DECIMAL, TIME)
ARROW_TYPES = {INT: pa.int64(), TEXT: pa.string(), DECIMAL: pa.decimal128(8, 2), TIME: pa.timestamp("ms")}
TABLES = {
    "t": {"k": TEXT, "a": INT, "n": INT, "d": DECIMAL, "s": TIME},
    "u": {"k": TEXT, "b": INT, "m": INT, "e": DECIMAL},
    "w": {"j": TEXT, "a": INT, "s": TIME},
    "v": {"k": TEXT, "n": INT, "ts": TIME},
}
EVENTS = "v"
"""The table of events, which only grows: `ts` is when each was."""
_HOURS = "FROM v JOIN range(-4, 8) AS g(h) ON "
_WINDOWS = {
    "TUMBLE({}, INTERVAL '2' HOUR)": ("h % 2 = 0 AND hour >= h AND hour < h + 2", "h", "h + 2"),
    "HOP({}, INTERVAL '1' HOUR, INTERVAL '3' HOUR)": ("hour >= h AND hour < h + 3", "h", "h + 3"),
    "CUMULATE({}, INTERVAL '1' HOUR, INTERVAL '2' HOUR)": (
        "hour < h AND h <= hour - (hour % 2 + 2) % 2 + 2",
        "hour - (hour % 2 + 2) % 2",
        "h",
    ),
}
"""Windows, and for each pair of a row and an hour whether it is one of DuckDB's, and from when to when that is."""
_EITHER = re.compile(r"⟨([^¦]*)¦([^⟩]*)⟩")


@dataclass(frozen=True)
class Column:
    """What a query can name, or gives."""

    text: str
    type: str


@dataclass(frozen=True)
class RandomQuery:
    """A query, and the columns that it gives."""

    text: str
    columns: tuple[Column, ...]

    @property
    def for_flink(self) -> str:
        return _EITHER.sub(r"\1", self.text)

    @property
    def for_duckdb(self) -> str:
        return _EITHER.sub(r"\2", self.text)


def schema_of(table: str) -> pa.Schema:
    """The columns of one of the tables."""
    return pa.schema([(name, ARROW_TYPES[kind]) for name, kind in TABLES[table].items()])


def random_row(table: str, generator: random.Random) -> tuple[Any, ...]:
    """A row of one of the tables."""
    return tuple(
        None if name != "ts" and generator.random() < 0.15 else _random_value(kind, generator)
        for name, kind in TABLES[table].items()
    )


def _random_value(kind: str, generator: random.Random) -> Any:
    if kind == TEXT:
        return generator.choice(["x", "y", "yy", ""])
    if kind == DECIMAL:
        return Decimal(generator.randrange(-200, 200)).scaleb(-2) * generator.choice([1, 100])
    number = generator.randrange(-2, 6)
    return number if kind == INT else datetime(2024, 1, 1) + timedelta(hours=number)


class QueryGenerator:
    """Draws queries; each is valid for both."""

    def __init__(self, generator: random.Random) -> None:
        self._random = generator
        self._tables = {name: tuple(Column(*each) for each in columns.items()) for name, columns in TABLES.items()}
        self._names = 0

    def query(self) -> RandomQuery:
        """A query, perhaps with one that it names and reads as a table."""
        tables = self._tables
        beginning = ""
        if self._chance(0.25):
            name, inner = self._name("c"), self._query(1)
            beginning = f"WITH {name} AS ({inner.text}) "
            # Under two names, so that it is drawn more often, also twice in a query.
            self._tables = {**tables, name: inner.columns, f"{name} ": inner.columns}
        found = self._query(2)
        self._tables = tables
        return RandomQuery(beginning + found.text, found.columns)

    # -- queries

    def _query(self, depth: int, types: Sequence[str] | None = None) -> RandomQuery:
        if types is None:
            types = [self._random.choice(TYPES) for _ in range(self._random.randint(1, 4))]
        kinds = [self._plain, self._plain, self._grouped, self._grouped, self._windowed, self._over]
        if depth > 0:
            kinds += [self._ranked, self._combined, self._limited]
        return self._random.choice(kinds)(depth, types)

    def _plain(self, depth: int, types: Sequence[str]) -> RandomQuery:
        source, scope = self._relation(depth)
        distinct = "DISTINCT " if self._chance(0.2) else ""
        where = self._where(scope, depth)
        values = [self._value(kind, scope) for kind in types]
        if self._chance(0.2):
            values[0] = self._asked(types[0], scope)
        return self._select(distinct, values, types, f"{source}{where}")

    def _grouped(self, depth: int, types: Sequence[str]) -> RandomQuery:
        source, scope = self._relation(depth)
        where = self._where(scope, depth)
        keys = self._random.sample(scope, min(len(scope), self._random.randint(0, 2)))
        if keys and self._chance(0.2):
            keys = [Column(self._value(key.type, [key]), key.type) for key in keys[:1]]
        if keys and self._chance(0.25):
            # A key that some sets are without is NULL in those.
            names = [key.text for key in keys]
            groups = self._random.choice(
                [f"ROLLUP({', '.join(names)})", f"CUBE({', '.join(names)})", f"GROUPING SETS (({names[0]}), ())"]
            )
            if groups.startswith("G"):
                keys = keys[:1]
        else:
            groups = ", ".join(key.text for key in keys)
        values = []
        for kind in types:
            same = [key.text for key in keys if key.type == kind]
            values.append(self._random.choice(same) if same and self._chance(0.5) else self._aggregate(kind, scope))
        if self._chance(0.1):
            values[0] = f"MAX({self._asked(types[0], scope)})"
        elif keys and all(key in scope for key in keys) and "(" not in groups and self._chance(0.1):
            values[0] = self._asked(types[0], keys)
        # A stream gives no row for no rows, also without keys.
        having = f" HAVING {self._having(scope)}" if self._chance(0.25) else ""
        if not keys or not groups.startswith(keys[0].text):
            having = f"{having} AND COUNT(*) > 0" if having else " HAVING COUNT(*) > 0"
        by = f" GROUP BY {groups}" if groups else ""
        return self._select("", values, types, f"{source}{where}{by}{having}")

    def _windowed(self, depth: int, types: Sequence[str]) -> RandomQuery:
        source, scope = self._windows()
        where = self._where(scope, depth)
        key, *_, start, end = scope
        keys = [start, end, *self._random.sample([key], self._random.randint(0, 1))]
        values = []
        for kind in types:
            same = [each.text for each in keys if each.type == kind]
            values.append(self._random.choice(same) if same and self._chance(0.5) else self._aggregate(kind, scope))
        by = ", ".join(each.text for each in self._random.sample(keys, len(keys)))
        return self._select("", values, types, f"{source}{where} GROUP BY {by}")

    def _over(self, depth: int, types: Sequence[str]) -> RandomQuery:
        name = self._name("x")
        scope = [Column(f"{name}.{column.text}", column.type) for column in self._tables[EVENTS]]
        where = self._where(scope, 0)
        start = self._random.choice(["UNBOUNDED", "INTERVAL '2' HOUR"])
        by = self._random.choice(["", f"PARTITION BY {name}.k "])
        window = f"({by}ORDER BY {name}.ts RANGE BETWEEN {start} PRECEDING AND CURRENT ROW)"
        values = [
            f"{self._call(kind, scope)} OVER {window}" if self._chance(0.5) else self._value(kind, scope)
            for kind in types
        ]
        return self._select("", values, types, f"{EVENTS} AS {name}{where}")

    def _ranked(self, depth: int, types: Sequence[str]) -> RandomQuery:
        inner, name = self._query(depth - 1, types), self._name("x")
        columns = [column.text for column in inner.columns]
        parts = self._random.sample(columns, self._random.randint(0, len(columns) - 1))
        by = f"PARTITION BY {', '.join(parts)} " if parts else ""
        call = self._random.choice(["ROW_NUMBER", "ROW_NUMBER", "RANK", "DENSE_RANK"])
        order = self._order(columns if call == "ROW_NUMBER" else columns[:1])
        last = self._random.randint(1, 3)
        window = f"SELECT *, {call}() OVER ({by}ORDER BY {order}) AS r FROM ({inner.text}) AS {name}"
        numbered = [place for place, kind in enumerate(types) if kind == INT and self._chance(0.5)][:1]
        values = ["r" if place in numbered else column for place, column in enumerate(columns)]
        first = f" AND r >= {self._random.randint(1, last)}" if call == "ROW_NUMBER" and self._chance(0.2) else ""
        return self._select("", values, types, f"({window}) AS {self._name('x')} WHERE r <= {last}{first}")

    def _limited(self, depth: int, types: Sequence[str]) -> RandomQuery:
        inner, name = self._query(depth - 1, types), self._name("x")
        columns = [column.text for column in inner.columns]
        offset = f" OFFSET {self._random.randint(1, 3)}" if self._chance(0.3) else ""
        limit = f"ORDER BY {self._order(columns)} LIMIT {self._random.randint(1, 6)}{offset}"
        limited = f"SELECT * FROM ({inner.text}) AS {name} {limit}"
        return self._select("", columns, types, f"({limited}) AS {self._name('x')}")

    def _combined(self, depth: int, types: Sequence[str]) -> RandomQuery:
        kind = self._random.choice(
            ["UNION", "UNION ALL", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"]
        )
        left, right = (self._query(depth - 1, types) for _ in range(2))
        columns = [column.text for column in left.columns]
        return self._select("", columns, types, f"({left.text} {kind} {right.text}) AS {self._name('x')}")

    def _select(self, distinct: str, values: Sequence[str], types: Sequence[str], rest: str) -> RandomQuery:
        columns = tuple(Column(self._name("v"), kind) for kind in types)
        items = ", ".join(f"{value} AS {column.text}" for value, column in zip(values, columns, strict=True))
        return RandomQuery(f"SELECT {distinct}{items} FROM {rest}", columns)

    def _order(self, columns: Sequence[str]) -> str:
        return ", ".join(f"{column}{self._way()}" for column in self._random.sample(columns, len(columns)))

    def _way(self) -> str:
        return self._random.choice(["", " DESC", " NULLS LAST", " DESC NULLS FIRST"])

    # -- what they read

    def _relation(self, depth: int) -> tuple[str, list[Column]]:
        if self._chance(0.1):
            return self._windows() if self._chance(0.5) else self._interval_join()
        if depth > 0 and self._chance(0.15):
            return self._lateral(depth)
        return self._join(depth) if self._chance(0.25 + 0.25 * depth) else self._source(depth)

    def _join(self, depth: int) -> tuple[str, list[Column]]:
        left, lefts = self._source(depth)
        right, rights = self._source(depth)
        if depth > 1 and self._chance(0.4):
            right, rights = self._join(depth - 1)
            right = f"({right})"
        scope = [*lefts, *rights]
        kind = self._random.choice(["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"])
        if kind == "CROSS JOIN":
            return f"{left} CROSS JOIN {right}", scope
        names = [{each.text.split(".")[1]: each for each in side} for side in (lefts, rights)]
        same = [each for each, column in names[0].items() if each in names[1] and column.type == names[1][each].type]
        if len(lefts) == len(names[0]) and len(rights) == len(names[1]) and same and self._chance(0.2):
            return f"{left} {kind} {right} USING ({self._random.choice(same)})", scope
        pairs = [(a, b) for a in lefts for b in rights if a.type == b.type]
        conditions = [
            f"{a.text} {self._random.choice(['=', '=', '=', 'IS NOT DISTINCT FROM'])} {b.text}"
            for a, b in self._random.sample(pairs, min(len(pairs), self._random.choice([0, 1, 1, 1, 2])))
        ]
        # DuckDB cannot join fully by what is no equality.
        if not conditions and kind != "FULL JOIN":
            conditions.append(self._comparison(scope))
        elif kind != "FULL JOIN" and self._chance(0.4):
            conditions.append(self._condition(scope, 0))
        if not conditions:
            return f"{left} CROSS JOIN {right}", scope
        return f"{left} {kind} {right} ON {' AND '.join(conditions)}", scope

    def _source(self, depth: int) -> tuple[str, list[Column]]:
        name = self._name("x")
        if self._chance(0.05):
            types = [INT, TEXT, self._random.choice(TYPES)]
            columns = tuple(Column(self._name("v"), kind) for kind in types)
            rows = [f"({', '.join(map(self._literal, types))})" for _ in range(3)]
            text, name = f"(VALUES {', '.join(rows)})", f"{name}({', '.join(each.text for each in columns)})"
            return f"{text} AS {name}", [Column(f"{name.split('(')[0]}.{each.text}", each.type) for each in columns]
        if depth > 0 and self._chance(0.4):
            inner = self._query(depth - 1)
            text, columns = f"({inner.text})", inner.columns
        else:
            text = self._random.choice(list(self._tables))
            columns = self._tables[text]
        return f"{text} AS {name}", [Column(f"{name}.{column.text}", column.type) for column in columns]

    def _windows(self) -> tuple[str, list[Column]]:
        name = self._name("x")
        call = self._random.choice(list(_WINDOWS))
        condition, start, end = _WINDOWS[call]
        hour, first = "datediff('hour', TIMESTAMP '2024-01-01', ts)", "TIMESTAMP '2024-01-01' + INTERVAL 1 HOUR * "
        condition, start, end = (each.replace("hour", hour) for each in (condition, start, end))
        columns = f"v.*, {first}({start}) AS window_start, {first}({end}) AS window_end"
        text = f"⟨TABLE({call.format('TABLE v, DESCRIPTOR(ts)')})¦(SELECT {columns} {_HOURS}{condition})⟩ AS {name}"
        bounds = (Column("window_start", TIME), Column("window_end", TIME))
        return text, [Column(f"{name}.{each.text}", each.type) for each in (*self._tables[EVENTS], *bounds)]

    def _interval_join(self) -> tuple[str, list[Column]]:
        names = [self._name("x") for _ in range(2)]
        left, right = names
        kind = self._random.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        lower, upper = self._random.choice([(-2, 1), (0, 3), (1, 2), (-3, -1)])
        times = " AND ".join(
            f"{left}.ts {sign} {right}.ts + INTERVAL '{hours}' HOUR" for sign, hours in ((">=", lower), ("<=", upper))
        )
        scope = [Column(f"{name}.{each.text}", each.type) for name in names for each in self._tables[EVENTS]]
        residual = f" AND {self._comparison(scope)}" if kind != "FULL JOIN" and self._chance(0.3) else ""
        condition = f"{left}.k = {right}.k AND {times}{residual}"
        return f"{EVENTS} AS {left} {kind} {EVENTS} AS {right} ON {condition}", scope

    # -- conditions

    def _where(self, scope: Sequence[Column], depth: int) -> str:
        return f" WHERE {self._condition(scope, depth)}" if self._chance(0.35) else ""

    def _condition(self, scope: Sequence[Column], depth: int) -> str:
        kind = self._random.random()
        if kind < 0.15:
            junction = self._random.choice(["AND", "OR"])
            return f"({self._condition(scope, depth)} {junction} {self._condition(scope, 0)})"
        if kind < 0.2:
            return f"NOT ({self._condition(scope, 0)})"
        if depth > 0 and kind < 0.55:
            return self._with_subquery(scope, depth)
        return self._comparison(scope)

    def _comparison(self, scope: Sequence[Column]) -> str:
        column = self._random.choice(scope)
        kind = self._random.random()
        if kind < 0.15:
            return f"{column.text} IS {self._random.choice(['', 'NOT '])}NULL"
        if kind < 0.3:
            values = ", ".join(self._literal(column.type) for _ in range(3))
            return f"{column.text} {self._random.choice(['', 'NOT '])}IN ({values})"
        if kind < 0.4:
            return f"{column.text} BETWEEN {self._literal(column.type)} AND {self._value(column.type, scope)}"
        operator = self._random.choice(["=", "<>", "<>", "<=", ">=", "IS DISTINCT FROM"])
        other = self._literal(column.type) if self._chance(0.5) else self._value(column.type, scope)
        return f"{column.text} {operator} {other}"

    def _with_subquery(self, scope: Sequence[Column], depth: int) -> str:
        column = self._random.choice(scope)
        negation = self._random.choice(["", "NOT "])
        kind = self._random.choice(["in", "exists", "scalar", "correlated in", "correlated scalar", "quantified"])
        operator = self._random.choice(["=", "<", ">=", "<>"])
        if kind == "in":
            return f"{column.text} {negation}IN ({self._query(depth - 1, [column.type]).text})"
        if kind == "scalar":
            source, inner = self._relation(depth - 1)
            value = self._aggregate(column.type, inner)
            return f"{column.text} {operator} (SELECT {value} FROM {source} HAVING COUNT(*) > 0)"
        if kind == "correlated scalar":
            return f"{column.text} {operator} {self._asked(column.type, scope)}"
        source, inner, where = self._correlated(scope, depth - 1)
        same = [each.text for each in inner if each.type == column.type]
        if kind == "exists" or not same:
            return f"{negation}EXISTS (SELECT 1 FROM {source} WHERE {where})"
        own = self._random.choice(same)
        if kind == "quantified":
            quantifier = self._random.choice(["ANY", "ALL"])
            return f"{column.text} {operator} {quantifier} (SELECT {own} FROM {source} WHERE {where})"
        return f"{column.text} {negation}IN (SELECT {own} FROM {source} WHERE {where})"

    # -- queries that read what is around them

    def _correlated(self, scope: Sequence[Column], depth: int) -> tuple[str, list[Column], str]:
        """What a query reads, its columns, and a condition on them and those around."""
        source, inner = self._relation(max(depth, 0)) if self._chance(0.3) else self._source(max(depth, 0))
        pairs = [(a.text, b.text) for a in scope for b in inner if a.type == b.type]
        both = [*scope, *inner]
        conditions = []
        if pairs:
            outer, own = self._random.choice(pairs)
            conditions.append(f"{own} {self._random.choice(['=', '=', '=', '<', '<>'])} {outer}")
        if not pairs or self._chance(0.4):
            conditions.append(self._condition(both, depth) if depth > 0 else self._comparison(both))
        return source, inner, " AND ".join(conditions)

    def _asked(self, kind: str, scope: Sequence[Column]) -> str:
        """A value that a query gives for each row around it."""
        if self._chance(0.3):
            inner, columns = self._source(0)
            return f"(SELECT {self._aggregate(kind, columns)} FROM {inner} HAVING COUNT(*) > 0)"
        source, columns, where = self._correlated(scope, self._random.randint(0, 1))
        if self._chance(0.3):
            return f"CASE WHEN EXISTS (SELECT 1 FROM {source} WHERE {where}) THEN {self._value(kind, scope, 0)} END"
        same = [each.text for each in columns if each.type == kind]
        if same and self._chance(0.3):
            value = self._random.choice(same)
            return f"(SELECT {value} FROM {source} WHERE {where} ORDER BY {value}{self._way()} LIMIT 1)"
        return f"(SELECT {self._aggregate(kind, columns)} FROM {source} WHERE {where})"

    def _lateral(self, depth: int) -> tuple[str, list[Column]]:
        left, scope = self._source(depth - 1)
        source, inner, where = self._correlated(scope, depth - 1)
        name = self._name("x")
        types = [self._random.choice(TYPES) for _ in range(self._random.randint(1, 2))]
        columns = [Column(self._name("v"), kind) for kind in types]
        if self._chance(0.3):
            values, rest = [self._aggregate(kind, inner) for kind in types], " HAVING COUNT(*) > 0"
        else:
            values, rest = [self._value(kind, [*inner, *inner, *scope], 0) for kind in types], ""
            if self._chance(0.4):
                rest = f" ORDER BY {self._order([each.text for each in columns])} LIMIT {self._random.randint(1, 3)}"
        items = ", ".join(f"{value} AS {column.text}" for value, column in zip(values, columns, strict=True))
        query = f"LATERAL (SELECT {items} FROM {source} WHERE {where}{rest}) AS {name}"
        join = f"{left} LEFT JOIN {query} ON TRUE" if self._chance(0.5) else f"{left} CROSS JOIN {query}"
        return join, [*scope, *(Column(f"{name}.{each.text}", each.type) for each in columns)]

    def _having(self, scope: Sequence[Column]) -> str:
        return f"{self._aggregate(INT, scope)} {self._random.choice(['<', '>', '<>'])} {self._random.randint(0, 4)}"

    # -- values

    def _value(self, kind: str, scope: Sequence[Column], depth: int = 1) -> str:
        same = [column.text for column in scope if column.type == kind]
        if not same:
            return self._literal(kind)
        column = self._random.choice(same)
        chance = self._random.random()
        if depth == 0 or chance < 0.6:
            return column
        other = self._value(kind, scope, 0)
        if chance < 0.7:
            return f"COALESCE({column}, {other})"
        if chance < 0.8:
            otherwise = f" ELSE {other}" if self._chance(0.5) else ""
            return f"CASE WHEN {self._condition(scope, 0)} THEN {column}{otherwise} END"
        if kind == INT:
            return f"({column} {self._random.choice('+-')} {other})"
        if kind == TEXT:
            return self._random.choice([f"UPPER({column})", f"({column} || {other})"])
        return f"NULLIF({column}, {self._literal(kind)})"

    def _aggregate(self, kind: str, scope: Sequence[Column]) -> str:
        condition = f" FILTER (WHERE {self._comparison(scope)})" if self._chance(0.2) else ""
        if kind == INT and self._chance(0.15):
            call = f"AVG({self._value(kind, scope)}){condition}"
            return f"⟨{call}¦CAST(TRUNC({call}) AS BIGINT)⟩"  # of whole numbers it is whole
        return f"{self._call(kind, scope)}{condition}"

    def _call(self, kind: str, scope: Sequence[Column]) -> str:
        if kind == INT and self._chance(0.5):
            column = self._random.choice(scope).text
            return self._random.choice(["COUNT(*)", f"COUNT({column})", f"COUNT(DISTINCT {column})"])
        value = self._value(kind, scope)
        names = {INT: ["SUM", "SUM", "MIN", "MAX"], DECIMAL: ["SUM", "MIN", "MAX"]}.get(kind, ["MIN", "MAX"])
        name = self._random.choice(names)
        distinct = "DISTINCT " if self._chance(0.2) else ""
        return f"{name}({distinct}{value})"

    def _literal(self, kind: str) -> str:
        value = _random_value(kind, self._random)
        if kind == TEXT:
            return f"'{value}'"
        return f"TIMESTAMP '{value}'" if kind == TIME else str(value) if kind == INT else f"{value:.2f}"

    # -- chance

    def _chance(self, part: float) -> bool:
        return self._random.random() < part

    def _name(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"
