"""`pyflink.datastream.connectors.jdbc`, for PostgreSQL."""

from __future__ import annotations

from typing import Self

from flinkray.connectors.postgres.jdbc_address import is_of_postgres, read_address
from flinkray.connectors.postgres.writing.statement import read_statement
from flinkray.connectors.postgres.writing.statement_sink import PostgresStatementSink, StatementSettings
from flinkray.errors import InvalidProgramError
from flinkray.pyflink.common.typeinfo import TypeInformation
from flinkray.pyflink.datastream.connector_functions import StandsForSink
from flinkray.pyflink.imported_names import imported
from flinkray.types.records import Kind

__all__ = ["JdbcConnectionOptions", "JdbcExecutionOptions", "JdbcSink"]

__getattr__ = imported(__name__)

_DRIVER = "org.postgresql.Driver"
_OTHERS = (
    "its connector is a Java archive, and there is no Java here; JdbcSink writes to PostgreSQL, as do "
    "flinkray.PostgresSink and a table WITH ('connector' = 'jdbc', ...); write to other databases from Python, in a "
    "Sink of your own (flinkray.Sink) or a function given to add_sink"
)


class JdbcConnectionOptions:
    """Where the server is, and who asks. Its builder makes it."""

    def __init__(self, url: str, user_name: str, password: str) -> None:
        self._url = url
        self._user_name = user_name
        self._password = password

    def get_db_url(self) -> str:
        return self._url

    def get_driver_name(self) -> str:
        return _DRIVER

    def get_user_name(self) -> str:
        return self._user_name

    def get_password(self) -> str:
        return self._password

    class JdbcConnectionOptionsBuilder:
        """
        Raises:
            InvalidProgramError: driver or address are another database's.
        """

        def __init__(self) -> None:
            self._url = ""
            self._user_name = ""
            self._password = ""

        def with_url(self, url: str) -> Self:
            if not is_of_postgres(url):
                raise InvalidProgramError(
                    "with_url takes the address of a PostgreSQL server, 'jdbc:postgresql://host:5432/database'; that "
                    f"is another: {_OTHERS}"
                )
            self._url = url
            return self

        def with_driver_name(self, driver_name: str) -> Self:
            if driver_name != _DRIVER:
                raise InvalidProgramError(f"with_driver_name takes {_DRIVER!r}, not {driver_name!r}: {_OTHERS}")
            return self

        def with_user_name(self, user_name: str) -> Self:
            self._user_name = user_name
            return self

        def with_password(self, password: str) -> Self:
            self._password = password
            return self

        def build(self) -> JdbcConnectionOptions:
            if not self._url:
                raise InvalidProgramError(
                    "JdbcConnectionOptions needs with_url('jdbc:postgresql://host:5432/database')"
                )
            return JdbcConnectionOptions(self._url, self._user_name, self._password)


class JdbcExecutionOptions:
    """When rows are sent, and how often again. Its builder makes it."""

    def __init__(self, settings: StatementSettings) -> None:
        self._settings = settings

    def get_batch_interval_ms(self) -> int:
        return self._settings.interval_ms

    def get_batch_size(self) -> int:
        return self._settings.batch_size

    def get_max_retries(self) -> int:
        return self._settings.max_retries

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        return JdbcExecutionOptions(StatementSettings())

    @staticmethod
    def builder() -> JdbcExecutionOptions.Builder:
        return JdbcExecutionOptions.Builder()

    class Builder:
        def __init__(self) -> None:
            self._given: dict[str, int] = {}

        def with_batch_size(self, size: int) -> Self:
            self._given["batch_size"] = max(0, size)
            return self

        def with_batch_interval_ms(self, interval_ms: int) -> Self:
            self._given["interval_ms"] = max(0, interval_ms)
            return self

        def with_max_retries(self, max_retries: int) -> Self:
            """
            Raises:
                InvalidProgramError: it is below 0.
            """
            if max_retries < 0:
                raise InvalidProgramError(f"with_max_retries takes 0 or more, not {max_retries}")
            self._given["max_retries"] = max_retries
            return self

        def build(self) -> JdbcExecutionOptions:
            return JdbcExecutionOptions(StatementSettings(**self._given))


class JdbcSink(StandsForSink):
    """A statement for each row, at least once."""

    def __init__(self, sink: PostgresStatementSink) -> None:
        self._sink = sink

    @staticmethod
    def sink(
        sql: str,
        type_info: TypeInformation,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """
        Args:
            sql: has a `?` for each field of the rows, in their order; `??` is the operator `?`.
            type_info: of the rows.
        Raises:
            InvalidProgramError: the statement does not fit the rows, or the address has parameters that mean nothing
                here.
        """
        rows = type_info.record_type
        if rows.kind not in (Kind.ROW, Kind.TUPLE):
            raise InvalidProgramError(f"JdbcSink.sink(type_info=...) takes Types.ROW([...]), not {type_info}")
        options = jdbc_connection_options
        try:
            address = read_address(options.get_db_url(), options.get_user_name(), options.get_password())
        except ValueError as error:
            raise InvalidProgramError(f"JdbcConnectionOptions: {error}") from None
        schema = rows.schema.remove_metadata()
        statement = read_statement(sql, schema, address.types_texts, "JdbcSink.sink")
        execution = jdbc_execution_options or JdbcExecutionOptions.defaults()
        return JdbcSink(PostgresStatementSink(address, statement, execution._settings))

    def to_sink(self) -> PostgresStatementSink:
        return self._sink
