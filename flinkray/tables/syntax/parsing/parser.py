"""Text to statements."""

from __future__ import annotations

from flinkray.tables.syntax.expressions import Expression
from flinkray.tables.syntax.parsing.statements import StatementParser
from flinkray.tables.syntax.statements import Statement


def parse_script(sql: str) -> tuple[Statement, ...]:
    """The statements of a text, with `;` between them.

    Raises:
        SqlParserError: something is not written as Flink SQL is; says what, and shows where.
    """
    return StatementParser(sql).script()


def parse_statement(sql: str) -> Statement:
    """The one statement of a text; a `;` may stand behind it.

    Raises:
        SqlParserError: it is not written as Flink SQL is, or there is none, or several.
    """
    parser = StatementParser(sql)
    found = parser.statement()
    while parser.accept(";"):
        pass
    if not parser.at_end():
        parser.fail_unexpected()
    return found


def parse_expression(sql: str) -> Expression:
    """The one expression of a text, such as the Table API takes.

    Raises:
        SqlParserError: it is not written as Flink SQL is.
    """
    parser = StatementParser(sql)
    found = parser.expression()
    if not parser.at_end():
        parser.fail_unexpected()
    return found
