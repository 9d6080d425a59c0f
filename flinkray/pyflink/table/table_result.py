"""`pyflink.table.table_result`."""

from __future__ import annotations

from flinkray.collected_rows import CollectedRows
from flinkray.pyflink.common.job_client import JobClient
from flinkray.pyflink.imported_names import imported
from flinkray.tables.environment import results
from flinkray.tables.environment.answers import ResultKind

__all__ = ["CloseableIterator", "ResultKind", "TableResult"]

__getattr__ = imported(__name__)

CloseableIterator = CollectedRows


class TableResult(results.TableResult):
    """flinkray's, whose job has PyFlink's client."""

    # PyFlink's client has methods of the same names that do not wait.
    def get_job_client(self) -> JobClient | None:  # type: ignore[override]
        """The job of a query or INSERT; None: the statement started none."""
        client = super().get_job_client()
        return None if client is None else JobClient(client)
