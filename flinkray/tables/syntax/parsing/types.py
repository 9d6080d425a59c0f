"""Types: `DECIMAL(10, 2) NOT NULL`, `ROW<a INT, b ARRAY<STRING>>`, `TIMESTAMP(3) WITH LOCAL TIME ZONE`."""

from __future__ import annotations

from msgspec.structs import replace

from flinkray.tables.syntax.names import FieldType, IntervalUnits, TypeName
from flinkray.tables.syntax.nodes import NOWHERE
from flinkray.tables.syntax.parsing.cursor import Cursor
from flinkray.tables.syntax.words import INTERVAL_UNITS

# What each name is called here, and how many numbers it takes at most.
_SIMPLE = {
    "BOOLEAN": ("BOOLEAN", 0),
    "TINYINT": ("TINYINT", 0),
    "SMALLINT": ("SMALLINT", 0),
    "INT": ("INT", 0),
    "INTEGER": ("INT", 0),
    "BIGINT": ("BIGINT", 0),
    "FLOAT": ("FLOAT", 0),
    "REAL": ("FLOAT", 0),
    "DOUBLE": ("DOUBLE", 0),
    "DECIMAL": ("DECIMAL", 2),
    "DEC": ("DECIMAL", 2),
    "NUMERIC": ("DECIMAL", 2),
    "CHAR": ("CHAR", 1),
    "CHARACTER": ("CHAR", 1),
    "VARCHAR": ("VARCHAR", 1),
    "STRING": ("STRING", 0),
    "BINARY": ("BINARY", 1),
    "VARBINARY": ("VARBINARY", 1),
    "BYTES": ("BYTES", 0),
    "DATE": ("DATE", 0),
    "TIME": ("TIME", 1),
    "TIMESTAMP": ("TIMESTAMP", 1),
    "TIMESTAMP_LTZ": ("TIMESTAMP_LTZ", 1),
    "VARIANT": ("VARIANT", 0),
    "BITMAP": ("BITMAP", 0),
    "ANY": ("ANY", 0),
    "NULL": ("NULL", 0),
}


_SMALLER = {
    "YEAR": ("MONTH",),
    "DAY": ("HOUR", "MINUTE", "SECOND"),
    "HOUR": ("MINUTE", "SECOND"),
    "MINUTE": ("SECOND",),
}
"""The units that an interval may go down to from a larger one."""


class TypeParser(Cursor):
    """Reads types."""

    def type_name(self) -> TypeName:
        """`type [ARRAY | MULTISET]... [NOT NULL | NULL]`."""
        mark = self.mark()
        found = self.nested(self._type_without_suffix)
        while collection := self.accept_any("ARRAY", "MULTISET"):
            found = TypeName(collection, elements=(found,), not_null=self._nullability(), span=self.since(mark))
        return found

    def type_without_nullability(self) -> TypeName:
        """`type`, where NULL behind it would be something else."""
        mark = self.mark()
        return replace(self._bare_type(), span=self.since(mark))

    def _type_without_suffix(self) -> TypeName:
        mark = self.mark()
        bare = self._bare_type()
        return replace(bare, not_null=self._nullability(), span=self.since(mark))

    def _nullability(self) -> bool | None:
        if self.accept("NOT", "NULL"):
            return True
        return False if self.accept("NULL") else None

    def _bare_type(self) -> TypeName:
        key = self.token.key
        if key in ("ARRAY", "MULTISET") and self.ahead(1).key == "<":
            self.take()
            return TypeName(key, elements=self._in_angles(1))
        if key == "MAP" and self.ahead(1).key == "<":
            self.take()
            return TypeName(key, elements=self._in_angles(2))
        if key == "ROW":
            return self._row()
        if key == "STRUCTURED":
            return self._structured()
        if key == "RAW":
            return self._raw()
        if self.accept("INTERVAL"):
            return TypeName("INTERVAL", interval=self.interval_units())
        if key in _SIMPLE:
            return self._simple(key)
        if self.at_name():
            path = self.path("a type")
            return TypeName("", texts=path.texts, span=path.span)
        if key == "DATETIME":
            self.fail("there is no type DATETIME here: it is TIMESTAMP(3)")
        return self.fail_expecting("a type")

    def _simple(self, key: str) -> TypeName:
        self.take()
        name, most = _SIMPLE[key]
        if key == "DOUBLE":
            self.accept("PRECISION")
        if key in ("CHAR", "CHARACTER", "BINARY") and self.accept("VARYING"):
            name = "VARBINARY" if key == "BINARY" else "VARCHAR"
        numbers: tuple[int, ...] = ()
        if self.at("(") and most:
            numbers = self.in_parentheses(self.integer)
            if len(numbers) > most:
                self.fail(f"{name} takes at most {most} number{'s' * (most > 1)}", self.ahead(-1))
        if name in ("TIME", "TIMESTAMP"):
            name = self._time_zone(name)
        return TypeName(name, numbers)

    def _time_zone(self, name: str) -> str:
        if self.accept("WITHOUT", "TIME", "ZONE"):
            return name
        if name == "TIMESTAMP" and self.accept("WITH", "LOCAL", "TIME", "ZONE"):
            return "TIMESTAMP_LTZ"
        if self.accept("WITH", "TIME", "ZONE"):
            return f"{name} WITH TIME ZONE"
        return name

    def _in_angles(self, count: int) -> tuple[TypeName, ...]:
        self.expect("<")
        elements = self.separated(self.type_name)
        if len(elements) != count:
            self.fail(f"expected {count} type{'s' * (count > 1)} between < and >, not {len(elements)}")
        self.expect(">")
        return elements

    def _row(self) -> TypeName:
        self.expect("ROW")
        if self.accept("<>"):
            return TypeName("ROW")
        closing = ">" if self.accept("<") else ""
        if not closing:
            self.expect("(")
            closing = ")"
        fields = () if self.at(closing) else self.separated(self._field)
        self.expect(closing)
        return TypeName("ROW", fields=fields)

    def _field(self) -> FieldType:
        mark = self.mark()
        name = self.name("a field")
        self.accept(":")
        kind = self.type_name()
        comment = self.string() if self.token.kind == "string" else None
        return FieldType(name, kind, comment, span=self.since(mark))

    def _structured(self) -> TypeName:
        self.expect("STRUCTURED", "<")
        texts = (self.string("the class in single quotes"),)
        fields = tuple(self._field() for _ in iter(lambda: self.accept(","), False))
        self.expect(">")
        return TypeName("STRUCTURED", texts=texts, fields=fields)

    def _raw(self) -> TypeName:
        self.expect("RAW")
        texts = self.in_parentheses(self.string)
        return TypeName("RAW", texts=texts)

    def interval_units(self) -> IntervalUnits:
        """`DAY(2) TO SECOND(3)`."""
        mark = self.mark()
        first = self._unit()
        precision = fraction = last = None
        if self.at("(") and self.ahead(2).key == "," and first == "SECOND":
            precision, fraction = self.in_parentheses(self.integer)
        elif self.at("("):
            (precision,) = self.in_parentheses(self.integer)
        if self.at("TO") and INTERVAL_UNITS.get(self.ahead(1).key) in _SMALLER.get(first, ()):
            self.take()
            last = self._unit()
            if last == "SECOND" and self.at("("):
                (fraction,) = self.in_parentheses(self.integer)
        span = self.since(mark) if self.mark() != mark else NOWHERE
        return IntervalUnits(first, precision, last, fraction, span=span)

    def _unit(self) -> str:
        if self.token.key not in INTERVAL_UNITS:
            self.fail_expecting("a unit of time such as SECOND, MINUTE, HOUR, DAY, MONTH or YEAR")
        return INTERVAL_UNITS[self.take().key]
