"""What the operators do that join tables."""

from __future__ import annotations

from flinkray.connectors.lookup import LookupTable
from flinkray.tables.plans.expressions import BoundExpression
from flinkray.tables.types.logical import RowType
from flinkray.transformations.operator_factories import TableFactory
from flinkray.types.records import Millis


class RegularJoinFactory(TableFactory, frozen=True, kw_only=True):
    """All pairs of two changelogs, whatever comes when."""

    kind: str
    """INNER, LEFT, RIGHT or FULL; with the columns of the left input alone, SEMI or ANTI."""
    keys: tuple[tuple[int, int], ...]
    """Pairs of columns of the left and of the right that have to be equal, by which the inputs are partitioned."""
    condition: BoundExpression | None = None
    """What else has to be true, over the columns of the left and then of the right."""
    unique: tuple[tuple[int, ...] | None, tuple[int, ...] | None] = (None, None)
    """Columns of each input by which changes find the row that they replace; None: by all of them."""
    input_ttls_ms: tuple[int, int] = (0, 0)
    """Rows of an input that were not written for so long are forgotten; 0: never."""
    nulls_equal: tuple[int, ...] = ()
    """The places of those keys of which a NULL is equal to another one; other keys with a NULL match nothing."""
    inputs = 2


class TableIntervalJoinFactory(TableFactory, frozen=True, kw_only=True):
    """Pairs of rows that lie near each other in time: `lower_ms <= right's time - left's <= upper_ms`."""

    kind: str
    """INNER, LEFT, RIGHT or FULL."""
    keys: tuple[tuple[int, int], ...]
    """As of a regular join."""
    lower_ms: int
    upper_ms: int
    times: tuple[int, int] | None
    """The columns of event times of both inputs; None: the time of a row is when it arrives."""
    condition: BoundExpression | None = None
    """As of a regular join, without what it says of time."""
    inputs = 2


class UnnestFactory(TableFactory, frozen=True, kw_only=True):
    """A row for each element of a collection: the row's columns, the element's, and the element's place where that is
    asked for."""

    collection: BoundExpression
    """Over the columns of the input."""
    is_outer: bool
    """Whether a row without elements is there once, with NULLs."""
    with_ordinality: bool
    replaces: bool = False
    """Whether rows that are updated become rows that are deleted and others that are inserted."""


class SetOperationFactory(TableFactory, frozen=True, kw_only=True):
    """INTERSECT or EXCEPT of two inputs, which are partitioned by all of their columns."""

    kind: str
    all: bool
    """Whether rows are there as often as they are in the inputs, or once."""
    inputs = 2


class TemporalJoinFactory(TableFactory, frozen=True, kw_only=True):
    """Rows of the left with the version of the right at their time."""

    kind: str
    """INNER or LEFT."""
    keys: tuple[tuple[int, int], ...]
    """As of a regular join; those of the right tell its rows apart."""
    times: tuple[int, int]
    """The columns of event times of both inputs."""
    condition: BoundExpression | None = None
    inputs = 2


class LookupJoinFactory(TableFactory, frozen=True, kw_only=True):
    """Rows with those that a table has for their key when they come."""

    table: LookupTable
    table_rows: RowType
    """The columns of the table."""
    kind: str
    """INNER or LEFT."""
    keys: tuple[tuple[int, int], ...]
    """Pairs of columns of the rows and of the table."""
    condition: BoundExpression | None = None
    """Over the columns of the rows and then of the table."""


class RetriedLookupJoinFactory(LookupJoinFactory, frozen=True, kw_only=True):
    """As a LookupJoinFactory; the table is asked again for keys that it has no row for, while all rows behind wait."""

    retry_delay_ms: Millis
    """How long after it was asked last."""
    retries: int
    """How often at most."""
    yields_to_mailbox = True
