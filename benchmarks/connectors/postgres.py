"""PostgreSQL: tables read, appended to, upserted, and their changes."""

from __future__ import annotations

from typing import Any

from benchmarks.connectors.way import Way, orders, read, write
from flinkray import DeliveryGuarantee, PostgresChangesSource, PostgresSink, PostgresSource

_COLUMNS = "(id bigint PRIMARY KEY, customer bigint, price double precision, word text)"


def _adbc(address: str) -> Any:
    import adbc_driver_postgresql.dbapi

    return adbc_driver_postgresql.dbapi.connect(address)


def _ingest(address: str, place: str, rows: int) -> None:
    with _adbc(address) as connection:
        with connection.cursor() as cursor:
            cursor.adbc_ingest(place, orders(rows), mode="append")
        connection.commit()


class PostgresWay(Way):
    server = "postgres"

    @property
    def address(self) -> str:
        return str(self.server_of_it.uri)

    def prepare(self, place: str, rows: int) -> None:
        self.server_of_it.execute(f"CREATE TABLE {place} {_COLUMNS}")


class PostgresRead(PostgresWay):
    name = "postgres-read"
    work = "a table of PostgreSQL to columns"
    client_is = "fetch_arrow_table() of ADBC"

    def prepare(self, place: str, rows: int) -> None:
        super().prepare(place, rows)
        _ingest(self.address, place, rows)

    @staticmethod
    def client(address: str, place: str, rows: int) -> None:
        with _adbc(address) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {place}")
            assert cursor.fetch_arrow_table().num_rows == rows

    @staticmethod
    def flinkray(address: str, place: str, rows: int) -> None:
        read(PostgresSource(address, place, key="id"), rows)


class PostgresAppend(PostgresWay):
    name = "postgres-append"
    work = "rows to PostgreSQL, exactly once by a table of commits"
    client_is = "adbc_ingest() of ADBC"

    @staticmethod
    def make(rows: int) -> None:
        orders(rows)

    @staticmethod
    def client(address: str, place: str, rows: int) -> None:
        _ingest(address, place, rows)

    @staticmethod
    def flinkray(address: str, place: str, rows: int) -> None:
        write(orders(rows), PostgresSink(address, place))


class PostgresUpsert(PostgresWay):
    name = "postgres-upsert"
    work = "rows to PostgreSQL by key, at least once"
    client_is = "adbc_ingest() into a temporary table, then INSERT ... ON CONFLICT"

    @staticmethod
    def make(rows: int) -> None:
        orders(rows)

    @staticmethod
    def client(address: str, place: str, rows: int) -> None:
        with _adbc(address) as connection:
            with connection.cursor() as cursor:
                cursor.execute(f"CREATE TEMPORARY TABLE new (LIKE {place})")
                cursor.adbc_ingest("new", orders(rows), mode="append", temporary=True)
                cursor.execute(
                    f"INSERT INTO {place} SELECT * FROM new ON CONFLICT (id) DO UPDATE SET "
                    "customer = excluded.customer, price = excluded.price, word = excluded.word"
                )
            connection.commit()

    @staticmethod
    def flinkray(address: str, place: str, rows: int) -> None:
        write(orders(rows), PostgresSink(address, place, "id", DeliveryGuarantee.AT_LEAST_ONCE))


class PostgresChanges(PostgresWay):
    name = "postgres-changes"
    work = "rows that were inserted in one transaction, from PostgreSQL's log"
    client_is = "pg_logical_slot_get_binary_changes() by psycopg: bytes that nobody decodes"

    def prepare(self, place: str, rows: int) -> None:
        super().prepare(place, rows)
        read(PostgresChangesSource(self.address, place, stop="latest"), 0)  # makes publication and slot
        _ingest(self.address, place, rows)

    def clear(self, place: str) -> None:
        self.server_of_it.execute(f"SELECT pg_drop_replication_slot('flinkray_{place}')")

    @staticmethod
    def client(address: str, place: str, rows: int) -> None:
        import psycopg

        with psycopg.connect(address) as connection:
            found = connection.execute(
                "SELECT data FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL, 'proto_version', '1', "
                "'publication_names', %s)",
                (f"flinkray_{place}", f"flinkray_{place}"),
                binary=True,
            ).fetchall()
        assert len(found) > rows

    @staticmethod
    def flinkray(address: str, place: str, rows: int) -> None:
        read(PostgresChangesSource(address, place, start="latest", stop="latest"), rows)
