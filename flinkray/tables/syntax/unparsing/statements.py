"""Statements to text."""

from __future__ import annotations

from functools import singledispatch

from flinkray.tables.syntax.names import Name
from flinkray.tables.syntax.statements import (
    Alter,
    AlterTable,
    Analyze,
    CallProcedure,
    ChangeJars,
    CompilePlan,
    CreateCatalog,
    CreateDatabase,
    CreateFunction,
    CreateMaterializedTable,
    CreateModel,
    CreateTable,
    CreateView,
    Delete,
    Describe,
    Drop,
    ExecutePlan,
    Explain,
    Insert,
    LoadModule,
    Options,
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
from flinkray.tables.syntax.unparsing.expressions import expression_text, name_text, names_text, path_text, string_text
from flinkray.tables.syntax.unparsing.queries import hints_text, query_text
from flinkray.tables.syntax.unparsing.tables import (
    change_text,
    column_text,
    distribution_text,
    like_text,
    options_text,
    partition_text,
    schema_text,
)


@singledispatch
def statement_text(statement: Statement) -> str:
    """A statement without `;`, which is read as the same statement."""
    raise NotImplementedError(type(statement).__name__)


def _words(*parts: str | bool | None) -> str:
    """The parts that are there, with blanks between them."""
    return " ".join(part for part in parts if isinstance(part, str) and part)


def _if(condition: bool, words: str) -> str:
    return words if condition else ""


def _comment(comment: str | None) -> str:
    return "" if comment is None else f"COMMENT {string_text(comment)}"


def _with(options: Options) -> str:
    return f"WITH {options_text(options)}" if options else ""


def _partition(values: tuple[PartitionValue, ...]) -> str:
    return partition_text(values) if values else ""


@statement_text.register
def _(statement: QueryStatement) -> str:
    return query_text(statement.query)


@statement_text.register
def _(statement: Insert) -> str:
    columns = f"({', '.join(path_text(each) for each in statement.columns)})" if statement.columns else ""
    return _words(
        "INSERT OVERWRITE" if statement.overwrite else "INSERT INTO",
        path_text(statement.table),
        *hints_text(statement.hints),
        _partition(statement.partition),
        columns,
        query_text(statement.query),
    )


@statement_text.register
def _(statement: Update) -> str:
    assignments = [f"{name_text(each.column)} = {expression_text(each.value)}" for each in statement.assignments]
    where = "" if statement.where is None else f"WHERE {expression_text(statement.where)}"
    return _words("UPDATE", path_text(statement.table), "SET", ", ".join(assignments), where)


@statement_text.register
def _(statement: Delete) -> str:
    where = "" if statement.where is None else f"WHERE {expression_text(statement.where)}"
    return _words("DELETE FROM", path_text(statement.table), where)


@statement_text.register
def _(statement: Truncate) -> str:
    return f"TRUNCATE TABLE {path_text(statement.table)}"


@statement_text.register
def _(statement: StatementSet) -> str:
    return f"EXECUTE {_statement_set_text(statement)}"


def _statement_set_text(statement: StatementSet) -> str:
    inserts = "".join(f"{statement_text(insert)};\n" for insert in statement.inserts)
    return f"STATEMENT SET BEGIN\n{inserts}END"


def _planned_text(statement: Statement) -> str:
    return _statement_set_text(statement) if isinstance(statement, StatementSet) else statement_text(statement)


@statement_text.register
def _(statement: Explain) -> str:
    details = ", ".join(statement.details)
    return _words("EXPLAIN", details, _planned_text(statement.statement))


@statement_text.register
def _(statement: CompilePlan) -> str:
    return _words(
        "COMPILE",
        _if(statement.executes, "AND EXECUTE"),
        "PLAN",
        string_text(statement.file),
        _if(statement.if_not_exists, "IF NOT EXISTS"),
        "FOR",
        _planned_text(statement.statement),
    )


@statement_text.register
def _(statement: ExecutePlan) -> str:
    return f"EXECUTE PLAN {string_text(statement.file)}"


# -- CREATE, ALTER, DROP


def _table_body(statement: CreateTable | CreateMaterializedTable) -> list[str]:
    """Columns, comment, distribution, partitions, options: a line for each."""
    lines = [schema_text(statement.columns, statement.watermarks, statement.keys), _comment(statement.comment)]
    lines.append("" if statement.distribution is None else f"DISTRIBUTED {distribution_text(statement.distribution)}")
    lines.append(f"PARTITIONED BY {names_text(statement.partitioned_by)}" if statement.partitioned_by else "")
    lines.append(_with(statement.options))
    return lines


@statement_text.register
def _(statement: CreateTable) -> str:
    head = _words(
        statement.replaces or "CREATE",
        _if(statement.temporary, "TEMPORARY"),
        "TABLE",
        _if(statement.if_not_exists, "IF NOT EXISTS"),
        path_text(statement.table),
    )
    schema, *lines = _table_body(statement)
    lines.append("" if statement.like is None else like_text(statement.like))
    lines.append("" if statement.query is None else f"AS {query_text(statement.query)}")
    return "\n".join([_words(head, schema), *(line for line in lines if line)])


@statement_text.register
def _(statement: CreateMaterializedTable) -> str:
    head = _words(
        "CREATE",
        _if(statement.or_alter, "OR ALTER"),
        "MATERIALIZED TABLE",
        _if(statement.if_not_exists, "IF NOT EXISTS"),
        path_text(statement.table),
    )
    schema, *lines = _table_body(statement)
    lines.append("" if statement.freshness is None else f"FRESHNESS = {expression_text(statement.freshness)}")
    lines.append(f"REFRESH_MODE = {statement.refresh_mode}" if statement.refresh_mode else "")
    lines.append(f"AS {query_text(statement.query)}")
    return "\n".join([_words(head, schema), *(line for line in lines if line)])


@statement_text.register
def _(statement: CreateView) -> str:
    return _words(
        "CREATE",
        _if(statement.temporary, "TEMPORARY"),
        "VIEW",
        _if(statement.if_not_exists, "IF NOT EXISTS"),
        path_text(statement.view),
        names_text(statement.columns) if statement.columns else "",
        _comment(statement.comment),
        "AS",
        query_text(statement.query),
    )


@statement_text.register
def _(statement: CreateFunction) -> str:
    resources = [f"{each.kind} {string_text(each.path)}" for each in statement.resources]
    return _words(
        "ALTER" if statement.alters else "CREATE",
        _if(statement.temporary, "TEMPORARY"),
        _if(statement.system, "SYSTEM"),
        "FUNCTION",
        _if(statement.if_not_exists, "IF EXISTS" if statement.alters else "IF NOT EXISTS"),
        path_text(statement.function),
        f"AS {string_text(statement.implementation)}",
        f"LANGUAGE {statement.language}" if statement.language else "",
        f"USING {', '.join(resources)}" if resources else "",
        _with(statement.options),
    )


@statement_text.register
def _(statement: CreateCatalog) -> str:
    exists = _if(statement.if_not_exists, "IF NOT EXISTS")
    return _words(
        "CREATE CATALOG", exists, name_text(statement.name), _comment(statement.comment), _with(statement.options)
    )


@statement_text.register
def _(statement: CreateDatabase) -> str:
    exists = _if(statement.if_not_exists, "IF NOT EXISTS")
    return _words(
        "CREATE DATABASE", exists, path_text(statement.database), _comment(statement.comment), _with(statement.options)
    )


@statement_text.register
def _(statement: CreateModel) -> str:
    inputs = [column_text(each) for each in statement.inputs]
    outputs = [column_text(each) for each in statement.outputs]
    return _words(
        "CREATE",
        _if(statement.temporary, "TEMPORARY"),
        "MODEL",
        _if(statement.if_not_exists, "IF NOT EXISTS"),
        path_text(statement.model),
        f"INPUT ({', '.join(inputs)})" if inputs else "",
        f"OUTPUT ({', '.join(outputs)})" if outputs else "",
        _comment(statement.comment),
        _with(statement.options),
        "" if statement.query is None else f"AS {query_text(statement.query)}",
    )


@statement_text.register
def _(statement: AlterTable) -> str:
    exists = _if(statement.if_exists, "IF EXISTS")
    return _words("ALTER", statement.kind, exists, path_text(statement.table), change_text(statement.change))


@statement_text.register
def _(statement: Alter) -> str:
    exists = _if(statement.if_exists, "IF EXISTS")
    return _words("ALTER", statement.kind, exists, path_text(statement.path), change_text(statement.change))


@statement_text.register
def _(statement: Drop) -> str:
    return _words(
        "DROP",
        _if(statement.temporary, "TEMPORARY"),
        _if(statement.system, "SYSTEM"),
        statement.kind,
        _if(statement.if_exists, "IF EXISTS"),
        path_text(statement.path),
        statement.behavior,
    )


# -- utilities


@statement_text.register
def _(statement: Describe) -> str:
    if statement.kind == "JOB":
        return f"DESCRIBE JOB {string_text(statement.path.names[0].text)}"
    kind = "" if statement.kind == "TABLE" else statement.kind
    return _words("DESCRIBE", kind, _if(statement.extended, "EXTENDED"), path_text(statement.path))


@statement_text.register
def _(statement: Show) -> str:
    return _words(
        "SHOW",
        statement.subject,
        statement.preposition,
        "" if statement.path is None else path_text(statement.path),
        _partition(statement.partition),
        statement.operator and f"{statement.operator} {string_text(statement.pattern)}",
    )


@statement_text.register
def _(statement: Use) -> str:
    kind = "" if statement.kind == "DATABASE" else statement.kind
    return _words("USE", kind, ", ".join(path_text(path) for path in statement.paths))


@statement_text.register
def _(statement: Set) -> str:
    if statement.key is None or statement.value is None:
        return "SET"
    return f"SET {string_text(statement.key)} = {string_text(statement.value)}"


@statement_text.register
def _(statement: Reset) -> str:
    return "RESET" if statement.key is None else f"RESET {string_text(statement.key)}"


@statement_text.register
def _(statement: LoadModule) -> str:
    return _words("LOAD MODULE", name_text(statement.name), _with(statement.options))


@statement_text.register
def _(statement: UnloadModule) -> str:
    return f"UNLOAD MODULE {name_text(statement.name)}"


@statement_text.register
def _(statement: ChangeJars) -> str:
    return f"{statement.verb} JAR {string_text(statement.path)}"


@statement_text.register
def _(statement: Analyze) -> str:
    columns = ", ".join(name_text(name) for name in statement.columns)
    return _words(
        "ANALYZE TABLE",
        path_text(statement.table),
        _partition(statement.partition),
        "COMPUTE STATISTICS",
        "FOR ALL COLUMNS" if statement.all_columns else columns and f"FOR COLUMNS {columns}",
    )


@statement_text.register
def _(statement: CallProcedure) -> str:
    return f"CALL {expression_text(statement.call)}"


@statement_text.register
def _(statement: StopJob) -> str:
    job = string_text(Name(statement.job).text)
    savepoint = _if(statement.savepoint, "WITH SAVEPOINT")
    return _words("STOP JOB", job, savepoint, _if(statement.drain, "WITH DRAIN"))
