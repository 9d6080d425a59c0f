"""CREATE, ALTER and DROP of all but tables."""

from __future__ import annotations

from flinkray.tables.syntax.parsing.tables import TableParser
from flinkray.tables.syntax.statements import (
    Alter,
    Change,
    Column,
    CreateCatalog,
    CreateDatabase,
    CreateFunction,
    CreateModel,
    CreateView,
    Drop,
    Resource,
    Statement,
)

_LANGUAGES = ("JAVA", "SCALA", "PYTHON")


class CatalogParser(TableParser):
    """Reads what is created, altered and dropped."""

    def create(self) -> Statement:
        """A statement that begins with CREATE, or REPLACE TABLE."""
        mark = self.mark()
        if self.accept("REPLACE", "TABLE"):
            return self.create_table(mark, temporary=False, replaces="REPLACE")
        self.expect("CREATE")
        if self.accept("OR", "REPLACE"):
            temporary = self.accept("TEMPORARY")
            self.expect("TABLE")
            return self.create_table(mark, temporary, replaces="CREATE OR REPLACE")
        or_alter = self.accept("OR", "ALTER")
        if self.accept("MATERIALIZED", "TABLE"):
            return self.create_materialized_table(mark, or_alter)
        temporary = self.accept("TEMPORARY")
        if self.accept("TABLE"):
            return self.create_table(mark, temporary, replaces="")
        if self.accept("VIEW"):
            return self._view(mark, temporary)
        system = temporary and self.accept("SYSTEM")
        if self.accept("FUNCTION"):
            return self._function(mark, temporary, system)
        if self.accept("MODEL"):
            return self._model(mark, temporary)
        if not temporary and self.accept("CATALOG"):
            return self._catalog(mark)
        if not temporary and self.accept("DATABASE"):
            return self._database(mark)
        return self.fail_expecting("TABLE, VIEW, FUNCTION, CATALOG, DATABASE or MODEL")

    def _view(self, mark: int, temporary: bool) -> CreateView:
        if_not_exists = self.if_not_exists()
        view = self.path("a view")
        columns = self.names() if self.at("(") else ()
        comment = self.comment()
        self.expect("AS")
        query = self.query()
        return CreateView(view, query, columns, comment, temporary, if_not_exists, span=self.since(mark))

    def _function(self, mark: int, temporary: bool, system: bool) -> CreateFunction:
        if_not_exists = self.if_not_exists()
        return self._function_body(mark, temporary, system, if_not_exists, alters=False)

    def _function_body(self, mark: int, temporary: bool, system: bool, if_exists: bool, alters: bool) -> CreateFunction:
        function = self.path("a function")
        self.expect("AS")
        implementation = self.string("the class or function in single quotes")
        language = self.expect_any(*_LANGUAGES) if self.accept("LANGUAGE") else ""
        resources = self.separated(self._resource) if self.accept("USING") else ()
        options = self.with_options()
        return CreateFunction(
            function,
            implementation,
            language,
            resources,
            options,
            temporary,
            system,
            if_exists,
            alters,
            span=self.since(mark),
        )

    def _resource(self) -> Resource:
        mark = self.mark()
        kind = self.expect_any("JAR", "FILE", "ARCHIVE", "ARTIFACT")
        return Resource(kind, self.string("a path in single quotes"), span=self.since(mark))

    def _catalog(self, mark: int) -> CreateCatalog:
        if_not_exists = self.if_not_exists()
        name = self.name("a catalog")
        comment = self.comment()
        options = self.with_options()
        return CreateCatalog(name, options, comment, if_not_exists, span=self.since(mark))

    def _database(self, mark: int) -> CreateDatabase:
        if_not_exists = self.if_not_exists()
        database = self.path("a database")
        comment = self.comment()
        options = self.with_options()
        return CreateDatabase(database, options, comment, if_not_exists, span=self.since(mark))

    def _model(self, mark: int, temporary: bool) -> CreateModel:
        if_not_exists = self.if_not_exists()
        model = self.path("a model")
        inputs: tuple[Column, ...] = self.in_parentheses(self._column) if self.accept("INPUT") else ()
        outputs: tuple[Column, ...] = self.in_parentheses(self._column) if self.accept("OUTPUT") else ()
        comment = self.comment()
        options = self.with_options()
        query = self.query() if self.accept("AS") else None
        return CreateModel(
            model, inputs, outputs, options, comment, temporary, if_not_exists, query, span=self.since(mark)
        )

    # -- ALTER

    def alter(self) -> Statement:
        """A statement that begins with ALTER."""
        mark = self.mark()
        self.expect("ALTER")
        if self.accept("TABLE"):
            return self.alter_table(mark, "TABLE")
        if self.accept("MATERIALIZED", "TABLE"):
            return self.alter_table(mark, "MATERIALIZED TABLE")
        temporary = self.accept("TEMPORARY")
        system = temporary and self.accept("SYSTEM")
        if self.accept("FUNCTION"):
            if_exists = self.accept("IF", "EXISTS")
            return self._function_body(mark, temporary, system, if_exists, alters=True)
        kind = self.accept_any("VIEW", "DATABASE", "CATALOG", "MODEL")
        if not kind or temporary:
            self.fail_expecting("TABLE, VIEW, FUNCTION, CATALOG, DATABASE or MODEL")
        if_exists = self.accept("IF", "EXISTS")
        path = self.path(f"a {kind.lower()}")
        change = self._change(self.mark())
        return Alter(kind, path, change, if_exists, span=self.since(mark))

    def _change(self, mark: int) -> Change:
        if self.at("RENAME"):
            return self.rename_to(mark)
        if self.at("AS"):
            return self.as_query(mark)
        if self.at("SET"):
            return self.set_options(mark)
        if self.at("RESET"):
            return self.reset_options(mark)
        if self.at("COMMENT"):
            return self.set_comment(mark)
        return self.fail_expecting("RENAME, AS, SET, RESET or COMMENT")

    # -- DROP

    def drop(self) -> Drop:
        """A statement that begins with DROP."""
        mark = self.mark()
        self.expect("DROP")
        temporary = self.accept("TEMPORARY")
        system = temporary and self.accept("SYSTEM")
        if self.accept("MATERIALIZED", "TABLE"):
            kind = "MATERIALIZED TABLE"
        else:
            kind = self.accept_any("TABLE", "VIEW", "FUNCTION", "CATALOG", "DATABASE", "MODEL")
        if not kind:
            self.fail_expecting("TABLE, VIEW, FUNCTION, CATALOG, DATABASE or MODEL")
        if_exists = self.accept("IF", "EXISTS")
        path = self.path(f"a {kind.lower()}")
        behavior = self.accept_any("RESTRICT", "CASCADE") if kind == "DATABASE" else ""
        return Drop(kind, path, temporary, system, if_exists, behavior, span=self.since(mark))
