"""Statements other than those about catalogs: INSERT, EXPLAIN, SHOW, SET and their like; several with `;` between."""

from __future__ import annotations

import re
from collections.abc import Callable

from flinkray.tables.syntax.expressions import Call, Query
from flinkray.tables.syntax.names import Name, Path
from flinkray.tables.syntax.parsing.catalogs import CatalogParser
from flinkray.tables.syntax.statements import (
    Analyze,
    Assignment,
    CallProcedure,
    ChangeJars,
    CompilePlan,
    CreateTable,
    Delete,
    Describe,
    ExecutePlan,
    Explain,
    Insert,
    LoadModule,
    PartitionValue,
    QueryStatement,
    Reset,
    Set,
    Show,
    Statement,
    StatementSet,
    StopJob,
    Truncate,
    UnloadModule,
    Update,
    Use,
)
from flinkray.tables.syntax.tokens import STRING

_KEY = re.compile(r"[^\s;='`]+")
_VALUE = re.compile(r"[^\s;'`]+")
_DETAILS = ("ESTIMATED_COST", "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE")
_LISTED = (
    "CATALOGS",
    "DATABASES",
    "TABLES",
    "VIEWS",
    "MATERIALIZED TABLES",
    "FUNCTIONS",
    "USER FUNCTIONS",
    "PROCEDURES",
    "MODELS",
    "MODULES",
    "FULL MODULES",
    "JARS",
    "JOBS",
    "CURRENT CATALOG",
    "CURRENT DATABASE",
)
_CREATED = ("TABLE", "VIEW", "CATALOG", "MODEL", "MATERIALIZED TABLE")


class StatementParser(CatalogParser):
    """Reads whole statements."""

    def script(self) -> tuple[Statement, ...]:
        """All statements of the text; empty ones between `;` are left out."""
        found: list[Statement] = []
        while not self.at_end():
            if self.accept(";"):
                continue
            found.append(self.statement())
            if not self.at_end() and not self.accept(";"):
                self.fail_unexpected()
        return tuple(found)

    def statement(self) -> Statement:
        """One statement, without the `;` behind it."""
        readers: dict[str, Callable[[], Statement]] = {
            "INSERT": self._insert,
            "CREATE": self.create,
            "REPLACE": self.create,
            "ALTER": self.alter,
            "DROP": self.drop,
            "EXECUTE": self._execute,
            "BEGIN": self._statement_set,
            "COMPILE": self._compile,
            "EXPLAIN": self._explain,
            "DESCRIBE": self._describe,
            "DESC": self._describe,
            "SHOW": self._show,
            "USE": self._use,
            "SET": self._set_option,
            "RESET": self._reset_option,
            "LOAD": self._load,
            "UNLOAD": self._unload,
            "ADD": self._jars,
            "REMOVE": self._jars,
            "UPDATE": self._update,
            "DELETE": self._delete,
            "TRUNCATE": self._truncate,
            "ANALYZE": self._analyze,
            "CALL": self._call_procedure,
            "STOP": self._stop,
        }
        for word, read in readers.items():
            if self.at(word):
                return read()
        if self.at_query() or any([self.at("SELECT"), self.at("WITH"), self.at("VALUES")]):
            return self._query_statement()
        return self.fail_expecting("a statement")

    def _query_statement(self) -> QueryStatement:
        mark = self.mark()
        return QueryStatement(self.query(), span=self.since(mark))

    # -- changes of tables

    def _insert(self) -> Insert:
        mark = self.mark()
        self.expect("INSERT")
        overwrite = self.expect_any("INTO", "OVERWRITE") == "OVERWRITE"
        self.accept("TABLE")
        table = self.path("a table")
        hints = self.hints()
        partition = self.partition()
        columns: tuple[Path, ...] = ()
        if self.at("(") and not self.at_query():
            columns = self.in_parentheses(lambda: self.path("a column"))
        query: Query = self.query()
        return Insert(table, query, overwrite, hints, partition, columns, span=self.since(mark))

    def _update(self) -> Update:
        mark = self.mark()
        self.expect("UPDATE")
        table = self.path("a table")
        self.expect("SET")
        assignments = self.separated(self._assignment)
        where = self.expression() if self.accept("WHERE") else None
        return Update(table, assignments, where, span=self.since(mark))

    def _assignment(self) -> Assignment:
        mark = self.mark()
        column = self.name("a column")
        self.expect("=")
        value = self.expression()
        return Assignment(column, value, span=self.since(mark))

    def _delete(self) -> Delete:
        mark = self.mark()
        self.expect("DELETE", "FROM")
        table = self.path("a table")
        where = self.expression() if self.accept("WHERE") else None
        return Delete(table, where, span=self.since(mark))

    def _truncate(self) -> Truncate:
        mark = self.mark()
        self.expect("TRUNCATE", "TABLE")
        return Truncate(self.path("a table"), span=self.since(mark))

    # -- several inserts, plans

    def _execute(self) -> Statement:
        mark = self.mark()
        if self.at("EXECUTE", "STATEMENT", "SET"):
            return self._statement_set()
        self.expect("EXECUTE")
        if self.accept("PLAN"):
            return ExecutePlan(self.string("a file in single quotes"), span=self.since(mark))
        return self._insert() if self.at("INSERT") else self._query_statement()

    def _statement_set(self) -> StatementSet:
        """`EXECUTE STATEMENT SET BEGIN ... END`, `STATEMENT SET BEGIN ... END`, or `BEGIN STATEMENT SET; ...; END`."""
        mark = self.mark()
        if self.accept("BEGIN", "STATEMENT", "SET"):
            self.accept(";")
        else:
            self.accept("EXECUTE")
            self.expect("STATEMENT", "SET", "BEGIN")
        inserts: list[Insert] = []
        while not self.accept("END"):
            inserts.append(self._insert())
            self.expect(";")
        if not inserts:
            self.fail("a statement set has one INSERT or more", self.ahead(-1))
        return StatementSet(tuple(inserts), span=self.since(mark))

    def _planned(self) -> QueryStatement | Insert | StatementSet:
        if self.at("INSERT"):
            return self._insert()
        if self.at("STATEMENT") or self.at("EXECUTE"):
            return self._statement_set()
        return self._query_statement()

    def _compile(self) -> CompilePlan:
        mark = self.mark()
        self.expect("COMPILE")
        executes = self.accept("AND", "EXECUTE")
        self.expect("PLAN")
        file = self.string("a file in single quotes")
        if_not_exists = self.if_not_exists()
        self.expect("FOR")
        planned = self._planned()
        if isinstance(planned, QueryStatement):
            self.fail("only plans of INSERT and of statement sets are kept", self.ahead(-1))
        return CompilePlan(file, planned, executes, if_not_exists, span=self.since(mark))

    def _explain(self) -> Explain:
        mark = self.mark()
        self.expect("EXPLAIN")
        details: tuple[str, ...] = ()
        if not self.accept("PLAN", "FOR") and self.token.key in _DETAILS:
            details = self.separated(lambda: self.expect_any(*_DETAILS))
        planned: Statement = self.create() if self.at("CREATE") or self.at("REPLACE") else self._planned()
        if not isinstance(planned, QueryStatement | Insert | StatementSet) and not (
            isinstance(planned, CreateTable) and planned.query is not None
        ):
            self.fail("EXPLAIN is of queries, INSERT, statement sets and CREATE TABLE AS", self.ahead(-1))
        return Explain(planned, details, span=self.since(mark))

    # -- looking

    def _describe(self) -> Describe:
        mark = self.mark()
        self.expect_any("DESCRIBE", "DESC")
        if self.accept("JOB"):
            token = self.token
            job = Path((Name(self.string("the id of a job in single quotes"), span=token.span),), span=token.span)
            return Describe("JOB", job, span=self.since(mark))
        kind = self.accept_any("CATALOG", "DATABASE", "FUNCTION", "MODEL", "TABLE") or "TABLE"
        extended = self.accept("EXTENDED")
        return Describe(kind, self.path(f"a {kind.lower()}"), extended, span=self.since(mark))

    def _show(self) -> Show:
        mark = self.mark()
        self.expect("SHOW")
        if self.accept("CREATE"):
            kind = next((kind for kind in _CREATED if self.accept(*kind.split())), "")
            if not kind:
                self.fail_expecting("TABLE, VIEW, CATALOG or MODEL")
            path = self.path(f"a {kind.lower()}")
            return Show(f"CREATE {kind}", path, span=self.since(mark))
        if self.accept("PARTITIONS"):
            table = self.path("a table")
            partition = self.partition()
            return Show("PARTITIONS", table, partition=partition, span=self.since(mark))
        if self.accept("COLUMNS"):
            preposition = self.expect_any("FROM", "IN")
            table = self.path("a table")
            operator, pattern = self._like_pattern()
            return Show("COLUMNS", table, preposition, operator, pattern, span=self.since(mark))
        subject = next((subject for subject in _LISTED if self.accept(*subject.split())), "")
        if not subject:
            self.fail_expecting("what to show: TABLES, COLUMNS, FUNCTIONS, CREATE TABLE, ...")
        preposition = self.accept_any("FROM", "IN")
        source = self.path("a database") if preposition else None
        operator, pattern = self._like_pattern()
        return Show(subject, source, preposition, operator, pattern, span=self.since(mark))

    def _like_pattern(self) -> tuple[str, str]:
        for operator in ("LIKE", "ILIKE", "NOT LIKE", "NOT ILIKE"):
            if self.accept(*operator.split()):
                return operator, self.string("a pattern in single quotes")
        return "", ""

    # -- the session

    def _use(self) -> Use:
        mark = self.mark()
        self.expect("USE")
        if self.accept("MODULES"):
            paths = self.separated(lambda: self.path("a module"))
            return Use("MODULES", paths, span=self.since(mark))
        kind = "CATALOG" if self.accept("CATALOG") else "DATABASE"
        return Use(kind, (self.path(f"a {kind.lower()}"),), span=self.since(mark))

    def _set_option(self) -> Set:
        mark = self.mark()
        self.expect("SET")
        if self.token.kind != STRING and (self.at_end() or self.at(";")):
            return Set(span=self.since(mark))
        if self.token.kind == STRING:
            key, value = self._option()
        else:  # Flink's client took these first, and still does
            key = self.bare(_KEY, "an option")
            self.expect("=")
            value = self.string() if self.token.kind == STRING else self.bare(_VALUE, "its value")
        return Set(key, value, span=self.since(mark))

    def _reset_option(self) -> Reset:
        mark = self.mark()
        self.expect("RESET")
        if self.token.kind != STRING and (self.at_end() or self.at(";")):
            return Reset(span=self.since(mark))
        key = self.string() if self.token.kind == STRING else self.bare(_KEY, "an option")
        return Reset(key, span=self.since(mark))

    def _load(self) -> LoadModule:
        mark = self.mark()
        self.expect("LOAD", "MODULE")
        name = self.name("a module")
        return LoadModule(name, self.with_options(), span=self.since(mark))

    def _unload(self) -> UnloadModule:
        mark = self.mark()
        self.expect("UNLOAD", "MODULE")
        return UnloadModule(self.name("a module"), span=self.since(mark))

    def _jars(self) -> ChangeJars:
        mark = self.mark()
        verb = self.expect_any("ADD", "REMOVE")
        self.expect("JAR")
        return ChangeJars(verb, self.string("a path in single quotes"), span=self.since(mark))

    def _analyze(self) -> Analyze:
        mark = self.mark()
        self.expect("ANALYZE", "TABLE")
        table = self.path("a table")
        partition: tuple[PartitionValue, ...] = self.partition()
        self.expect("COMPUTE", "STATISTICS")
        columns: tuple[Name, ...] = ()
        all_columns = self.accept("FOR", "ALL", "COLUMNS")
        if not all_columns and self.accept("FOR", "COLUMNS"):
            columns = self.separated(lambda: self.name("a column"))
        return Analyze(table, partition, columns, all_columns, span=self.since(mark))

    def _call_procedure(self) -> CallProcedure:
        mark = self.mark()
        self.expect("CALL")
        call = self.call(self.path("a procedure"))
        assert isinstance(call, Call)
        return CallProcedure(call, span=self.since(mark))

    def _stop(self) -> StopJob:
        mark = self.mark()
        self.expect("STOP", "JOB")
        job = self.string("the id of a job in single quotes")
        savepoint = self.accept("WITH", "SAVEPOINT")
        drain = self.accept("WITH", "DRAIN")
        return StopJob(job, savepoint, drain, span=self.since(mark))
