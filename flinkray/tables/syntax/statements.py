"""Statements as they are written."""

from __future__ import annotations

from flinkray.tables.syntax.expressions import Call, Expression, Interval, Query
from flinkray.tables.syntax.names import Name, Path, TypeName
from flinkray.tables.syntax.nodes import Node
from flinkray.tables.syntax.queries import Hint

Options = tuple[tuple[str, str], ...]
"""Keys and values of WITH and SET, in the order of the text."""


class Statement(Node, frozen=True):
    """Base of all statements."""


class QueryStatement(Statement, frozen=True):
    """A query by itself."""

    query: Query


class PartitionValue(Node, frozen=True):
    """`name = value` of PARTITION; without a value, the column alone."""

    column: Name
    value: Expression | None = None


class Insert(Statement, frozen=True):
    """`INSERT INTO t (columns) query`."""

    table: Path
    query: Query
    overwrite: bool = False
    hints: tuple[Hint, ...] = ()
    partition: tuple[PartitionValue, ...] = ()
    columns: tuple[Path, ...] = ()


class Assignment(Node, frozen=True):
    """`column = value` of UPDATE."""

    column: Name
    value: Expression


class Update(Statement, frozen=True):
    """`UPDATE t SET ... [WHERE ...]`."""

    table: Path
    assignments: tuple[Assignment, ...]
    where: Expression | None = None


class Delete(Statement, frozen=True):
    """`DELETE FROM t [WHERE ...]`."""

    table: Path
    where: Expression | None = None


class Truncate(Statement, frozen=True):
    """`TRUNCATE TABLE t`."""

    table: Path


class StatementSet(Statement, frozen=True):
    """Inserts that are one job: EXECUTE STATEMENT SET BEGIN ... END, or BEGIN STATEMENT SET."""

    inserts: tuple[Insert, ...]


class Explain(Statement, frozen=True):
    """`EXPLAIN [details | PLAN FOR] statement`."""

    statement: QueryStatement | Insert | StatementSet | CreateTable
    """Of CREATE TABLE there is only AS."""
    details: tuple[str, ...] = ()


class CompilePlan(Statement, frozen=True):
    """`COMPILE [AND EXECUTE] PLAN 'file' [IF NOT EXISTS] FOR statement`."""

    file: str
    statement: Insert | StatementSet
    executes: bool = False
    if_not_exists: bool = False


class ExecutePlan(Statement, frozen=True):
    """`EXECUTE PLAN 'file'`."""

    file: str


# -- tables


class PrimaryKey(Node, frozen=True):
    """`[CONSTRAINT name] PRIMARY KEY [(columns)] NOT ENFORCED`; also UNIQUE. Behind a column it has no columns."""

    columns: tuple[Name, ...] = ()
    name: Name | None = None
    kind: str = "PRIMARY KEY"
    enforced: bool | None = False
    """None where the text does not say, which means that it is."""


class Column(Node, frozen=True):
    """Base of the columns of a table."""

    name: Name


class PhysicalColumn(Column, frozen=True):
    """`name type`: a column that the table stores."""

    type: TypeName
    key: PrimaryKey | None = None
    comment: str | None = None


class MetadataColumn(Column, frozen=True):
    """`name type METADATA [FROM 'key'] [VIRTUAL]`: what connector or format know of a row."""

    type: TypeName
    key: str | None = None
    virtual: bool = False
    comment: str | None = None


class ComputedColumn(Column, frozen=True):
    """`name AS expression`."""

    expression: Expression
    comment: str | None = None


class PlainColumn(Column, frozen=True):
    """A name alone: CREATE TABLE ... AS takes the type from the query."""


class Watermark(Node, frozen=True):
    """`WATERMARK FOR column AS expression`."""

    column: Path
    expression: Expression


class Distribution(Node, frozen=True):
    """`DISTRIBUTED [BY [kind] (columns)] [INTO n BUCKETS]`."""

    kind: str = ""
    columns: tuple[Name, ...] = ()
    buckets: int | None = None


class LikeOption(Node, frozen=True):
    """`INCLUDING WATERMARKS`."""

    strategy: str
    feature: str


class LikeTable(Node, frozen=True):
    """`LIKE table (options)`."""

    table: Path
    options: tuple[LikeOption, ...] = ()


class CreateTable(Statement, frozen=True):
    """CREATE TABLE, with AS or LIKE or neither; also REPLACE TABLE and CREATE OR REPLACE TABLE."""

    table: Path
    columns: tuple[Column, ...] = ()
    watermarks: tuple[Watermark, ...] = ()
    keys: tuple[PrimaryKey, ...] = ()
    comment: str | None = None
    distribution: Distribution | None = None
    partitioned_by: tuple[Name, ...] = ()
    options: Options = ()
    like: LikeTable | None = None
    query: Query | None = None
    temporary: bool = False
    if_not_exists: bool = False
    replaces: str = ""
    """CREATE OR REPLACE, or REPLACE; empty: CREATE."""


class CreateMaterializedTable(Statement, frozen=True):
    """CREATE MATERIALIZED TABLE; with OR ALTER, an existing one is altered."""

    table: Path
    query: Query
    columns: tuple[Column, ...] = ()
    watermarks: tuple[Watermark, ...] = ()
    keys: tuple[PrimaryKey, ...] = ()
    comment: str | None = None
    distribution: Distribution | None = None
    partitioned_by: tuple[Name, ...] = ()
    options: Options = ()
    freshness: Interval | None = None
    refresh_mode: str = ""
    or_alter: bool = False
    if_not_exists: bool = False


class Position(Node, frozen=True):
    """FIRST, or AFTER a column."""

    after: Name | None = None


class ColumnChange(Node, frozen=True):
    """A column of ALTER TABLE with the place that it goes to."""

    column: Column
    position: Position | None = None


class AlterTable(Statement, frozen=True):
    """ALTER TABLE; `change` is one of the classes below."""

    table: Path
    change: Change
    if_exists: bool = False
    kind: str = "TABLE"
    """TABLE or MATERIALIZED TABLE."""


class Change(Node, frozen=True):
    """Base of what ALTER changes."""


class ChangeSchema(Change, frozen=True):
    """`ADD (...)` or `MODIFY (...)`: columns, keys, a watermark, a distribution."""

    verb: str
    columns: tuple[ColumnChange, ...] = ()
    keys: tuple[PrimaryKey, ...] = ()
    watermarks: tuple[Watermark, ...] = ()
    distribution: Distribution | None = None


class DropFromSchema(Change, frozen=True):
    """`DROP (columns)`, or what: PRIMARY KEY, CONSTRAINT (with its name), WATERMARK, DISTRIBUTION."""

    what: str = ""
    names: tuple[Path, ...] = ()


class RenameColumn(Change, frozen=True):
    """`RENAME a TO b`."""

    old: Path
    new: Name


class Rename(Change, frozen=True):
    """`RENAME TO name`."""

    new: Path


class SetOptions(Change, frozen=True):
    """`SET (key = value)`."""

    options: Options


class ResetOptions(Change, frozen=True):
    """`RESET (keys)`."""

    keys: tuple[str, ...]


class SetComment(Change, frozen=True):
    """`COMMENT 'text'`."""

    comment: str


class ChangePartitions(Change, frozen=True):
    """`ADD` or `DROP` of partitions; with options where they are added."""

    verb: str
    partitions: tuple[tuple[PartitionValue, ...], ...]
    options: tuple[Options, ...] = ()
    if_exists: bool = False
    """IF NOT EXISTS where partitions are added."""


class SetQuery(Change, frozen=True):
    """`AS query`."""

    query: Query


class Refresh(Change, frozen=True):
    """SUSPEND, RESUME or REFRESH of a materialized table."""

    verb: str
    options: Options = ()
    partition: tuple[PartitionValue, ...] = ()


class SetFreshness(Change, frozen=True):
    """`SET FRESHNESS = INTERVAL ...` or `SET REFRESH_MODE = ...`."""

    freshness: Interval | None = None
    refresh_mode: str = ""


# -- views, functions, catalogs, databases, models


class CreateView(Statement, frozen=True):
    """`CREATE VIEW v (columns) AS query`."""

    view: Path
    query: Query
    columns: tuple[Name, ...] = ()
    comment: str | None = None
    temporary: bool = False
    if_not_exists: bool = False


class Resource(Node, frozen=True):
    """`JAR 'path'` of USING."""

    kind: str
    path: str


class CreateFunction(Statement, frozen=True):
    """`CREATE FUNCTION f AS 'class' LANGUAGE PYTHON`."""

    function: Path
    implementation: str
    language: str = ""
    resources: tuple[Resource, ...] = ()
    options: Options = ()
    temporary: bool = False
    system: bool = False
    if_not_exists: bool = False
    alters: bool = False
    """ALTER FUNCTION; `if_not_exists` is then IF EXISTS."""


class CreateCatalog(Statement, frozen=True):
    """`CREATE CATALOG c WITH (...)`."""

    name: Name
    options: Options = ()
    comment: str | None = None
    if_not_exists: bool = False


class CreateDatabase(Statement, frozen=True):
    """`CREATE DATABASE d WITH (...)`."""

    database: Path
    options: Options = ()
    comment: str | None = None
    if_not_exists: bool = False


class CreateModel(Statement, frozen=True):
    """`CREATE MODEL m INPUT (...) OUTPUT (...) WITH (...)`."""

    model: Path
    inputs: tuple[Column, ...] = ()
    outputs: tuple[Column, ...] = ()
    options: Options = ()
    comment: str | None = None
    temporary: bool = False
    if_not_exists: bool = False
    query: Query | None = None


class Alter(Statement, frozen=True):
    """ALTER of a VIEW, DATABASE, CATALOG or MODEL."""

    kind: str
    path: Path
    change: Change
    if_exists: bool = False


class Drop(Statement, frozen=True):
    """DROP of a TABLE, VIEW, FUNCTION, CATALOG, DATABASE, MODEL or MATERIALIZED TABLE."""

    kind: str
    path: Path
    temporary: bool = False
    system: bool = False
    if_exists: bool = False
    behavior: str = ""
    """RESTRICT, CASCADE, or empty."""


# -- utilities


class Describe(Statement, frozen=True):
    """DESCRIBE of a TABLE, CATALOG, DATABASE, FUNCTION, MODEL or JOB (whose id is the path)."""

    kind: str
    path: Path
    extended: bool = False


class Show(Statement, frozen=True):
    """SHOW. The subject is in capitals: `TABLES`, `USER FUNCTIONS`, `CURRENT CATALOG`, `CREATE TABLE`."""

    subject: str
    path: Path | None = None
    """What it is of: SHOW CREATE TABLE path, SHOW TABLES FROM path, SHOW PARTITIONS path."""
    preposition: str = ""
    """FROM or IN where one stands before the path."""
    operator: str = ""
    """LIKE, ILIKE, NOT LIKE, NOT ILIKE, or empty."""
    pattern: str = ""
    partition: tuple[PartitionValue, ...] = ()


class Use(Statement, frozen=True):
    """USE of a DATABASE, of a CATALOG, or of MODULES."""

    kind: str
    paths: tuple[Path, ...]


class Set(Statement, frozen=True):
    """`SET 'key' = 'value'`, both also without quotes; without both, all options are shown."""

    key: str | None = None
    value: str | None = None


class Reset(Statement, frozen=True):
    """`RESET 'key'`, also without quotes; without it, all options."""

    key: str | None = None


class LoadModule(Statement, frozen=True):
    """`LOAD MODULE m WITH (...)`."""

    name: Name
    options: Options = ()


class UnloadModule(Statement, frozen=True):
    """`UNLOAD MODULE m`."""

    name: Name


class ChangeJars(Statement, frozen=True):
    """`ADD JAR 'path'` or REMOVE."""

    verb: str
    path: str


class Analyze(Statement, frozen=True):
    """`ANALYZE TABLE t [PARTITION (...)] COMPUTE STATISTICS [FOR COLUMNS ... | FOR ALL COLUMNS]`."""

    table: Path
    partition: tuple[PartitionValue, ...] = ()
    columns: tuple[Name, ...] = ()
    all_columns: bool = False


class CallProcedure(Statement, frozen=True):
    """`CALL procedure(...)`."""

    call: Call


class StopJob(Statement, frozen=True):
    """`STOP JOB 'id' [WITH SAVEPOINT] [WITH DRAIN]`."""

    job: str
    savepoint: bool = False
    drain: bool = False
