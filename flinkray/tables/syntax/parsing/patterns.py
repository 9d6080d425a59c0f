"""MATCH_RECOGNIZE: measures, patterns of rows, and the conditions of their variables."""

from __future__ import annotations

from flinkray.tables.syntax.expressions import Interval
from flinkray.tables.syntax.names import Name
from flinkray.tables.syntax.parsing.calls import CallParser
from flinkray.tables.syntax.queries import Alias, Definition, MatchRecognize, Measure, Pattern, Relation, Subset


class PatternParser(CallParser):
    """Reads MATCH_RECOGNIZE."""

    def alias(self) -> Alias | None:
        """`[AS] name [(columns)]`, where one comes next."""
        raise NotImplementedError

    def match_recognize(self, source: Relation, mark: int) -> MatchRecognize:
        """MATCH_RECOGNIZE behind the relation whose rows it matches."""
        self.expect("MATCH_RECOGNIZE", "(")
        partition_by = self.separated(self.expression) if self.accept("PARTITION", "BY") else ()
        order_by = self.separated(self.order_item) if self.accept("ORDER", "BY") else ()
        measures = self.separated(self._measure) if self.accept("MEASURES") else ()
        all_rows = self.accept("ALL", "ROWS", "PER", "MATCH")
        if not all_rows:
            self.accept("ONE", "ROW", "PER", "MATCH")
        after, after_variable = self._after()
        self.expect("PATTERN", "(")
        pattern = self._choice()
        self.expect(")")
        within = self._within()
        subsets = self.separated(self._subset) if self.accept("SUBSET") else ()
        self.expect("DEFINE")
        definitions = self.separated(self._definition)
        self.expect(")")
        alias = self.alias()
        return MatchRecognize(
            source,
            pattern,
            definitions,
            partition_by,
            order_by,
            measures,
            all_rows,
            after,
            after_variable,
            within,
            subsets,
            alias,
            span=self.since(mark),
        )

    def _measure(self) -> Measure:
        mark = self.mark()
        expression = self.expression()
        self.expect("AS")
        return Measure(expression, self.name("a measure"), span=self.since(mark))

    def _definition(self) -> Definition:
        mark = self.mark()
        variable = self.name("a pattern variable")
        self.expect("AS")
        condition = self.expression()
        return Definition(variable, condition, span=self.since(mark))

    def _subset(self) -> Subset:
        mark = self.mark()
        name = self.name("a pattern variable")
        self.expect("=")
        variables = self.names("a pattern variable")
        return Subset(name, variables, span=self.since(mark))

    def _after(self) -> tuple[str, Name | None]:
        """`AFTER MATCH SKIP ...`: where to, and behind which variable."""
        if not self.accept("AFTER", "MATCH", "SKIP"):
            return "", None
        if self.accept("PAST", "LAST", "ROW"):
            return "PAST LAST ROW", None
        self.expect("TO")
        if self.accept("NEXT", "ROW"):
            return "NEXT ROW", None
        where = self.accept_any("FIRST", "LAST") or "LAST"
        return where, self.name("a pattern variable")

    def _within(self) -> Interval | None:
        if not self.accept("WITHIN"):
            return None
        found = self.expression()
        if not isinstance(found, Interval):
            self.fail("WITHIN takes an interval, such as INTERVAL '10' SECOND", self.ahead(-1))
        return found

    # -- patterns

    def _choice(self) -> Pattern:
        return self.nested(self._choice_of_parts)

    def _choice_of_parts(self) -> Pattern:
        mark = self.mark()
        parts = [self._sequence()]
        while self.accept("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Pattern("choice", parts=tuple(parts), span=self.since(mark))

    def _sequence(self) -> Pattern:
        mark = self.mark()
        parts = [self._factor()]
        while not (self.at(")") or self.at("|") or self.at(",") or self.at("-") or self.at_end()):
            parts.append(self._factor())
        return parts[0] if len(parts) == 1 else Pattern("sequence", parts=tuple(parts), span=self.since(mark))

    def _factor(self) -> Pattern:
        mark = self.mark()
        found = self._part()
        least, most, reluctant = self._quantifier()
        if (least, most, reluctant) == (1, 1, False):
            return found
        if (found.least, found.most) != (1, 1):
            found = Pattern("sequence", parts=(found,), span=found.span)
        return Pattern(found.kind, found.variable, found.parts, least, most, reluctant, span=self.since(mark))

    def _part(self) -> Pattern:
        mark = self.mark()
        if self.accept("^"):
            return Pattern("start", span=self.since(mark))
        if self.accept("$"):
            return Pattern("end", span=self.since(mark))
        if self.accept("("):
            found = self._choice()
            self.expect(")")
            return found
        if self.accept("{", "-"):
            inner = self._choice()
            self.expect("-", "}")
            return Pattern("exclude", parts=(inner,), span=self.since(mark))
        if self.accept("PERMUTE"):
            parts = self.in_parentheses(self._choice)
            return Pattern("permute", parts=parts, span=self.since(mark))
        variable = self.name("a pattern variable")
        return Pattern("variable", variable, span=self.since(mark))

    def _quantifier(self) -> tuple[int, int | None, bool]:
        """How often at least and at most, and whether as seldom as possible."""
        least, most = 1, 1
        bounds: tuple[int, int | None] = (least, most)
        if self.accept("*"):
            bounds = (0, None)
        elif self.accept("+"):
            bounds = (1, None)
        elif self.accept("?"):
            bounds = (0, 1)
        elif self.at("{") and self.ahead(1).key != "-":
            self.take()
            bounds = self._repetitions()
        else:
            return 1, 1, False
        return (*bounds, self.accept("?"))

    def _repetitions(self) -> tuple[int, int | None]:
        least = 0 if self.at(",") else self.integer()
        most: int | None = least
        if self.accept(","):
            most = None if self.at("}") else self.integer()
        self.expect("}")
        return least, most
