"""Orders of a shop meet their customers: Kafka and a database's changes in; Kafka and tables out.

    python -m examples.orders [--target ray|local] [--seconds N] [--out DIR] [--parallelism N]

Input: orders as JSON in Kafka, and the table of customers in PostgreSQL, as it is and with each change of it (change
data capture). A shop makes both up, for N seconds.

1. Each order meets its customer, as known when it was placed. All of that goes to a table of Delta Lake.
2. Customers who spend more in 5 seconds than their credit allows raise an alert, in Kafka.
3. What each customer has spent in all is kept in a table of PostgreSQL, beside name and country of today.

Each of these has every order exactly once, also where processes die meanwhile. The broker and the database server are
started by this program, and ended with it.

Output: DIR/orders as a table of Delta Lake; progress on the terminal, and in the end a comparison of what the job
computed with what the shop knows. The program fails if they differ.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from examples.servers import ServerUnavailable
from examples.servers.kafka import KafkaBroker
from examples.servers.postgres import PostgresServer
from examples.shop import Shop
from flinkray import (
    DeliveryGuarantee,
    DeltaSink,
    JobClient,
    JsonFormat,
    KafkaSink,
    KafkaSource,
    PostgresChangesSource,
    PostgresSink,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from flinkray.tables.api.schemas import Schema
from flinkray.tables.api.table import Table

# -- the job -----------------------------------------------------------------------------------------------------

ORDER = pa.schema(
    [("id", pa.int64()), ("customer", pa.int32()), ("cents", pa.int64()), ("placed", pa.timestamp("us", "UTC"))]
)

ENRICHED_ORDER = pa.schema([*ORDER, ("name", pa.string()), ("country", pa.string()), ("credit", pa.int64())])

ENRICHED = """
SELECT o.id, o.customer, c.name, c.country, c.credit, o.cents, o.placed
FROM {orders} AS o LEFT JOIN customers FOR SYSTEM_TIME AS OF o.placed AS c ON o.customer = c.id
"""

ALERTS = """
SELECT customer, window_start, SUM(cents) AS cents, MAX(credit) AS credit
FROM TABLE(TUMBLE(TABLE {enriched}, DESCRIPTOR(placed), INTERVAL '5' SECOND))
GROUP BY customer, window_start, window_end
HAVING SUM(cents) > MAX(credit)
"""

TOTALS = """
SELECT o.customer, c.name, c.country, o.orders, o.cents
FROM (SELECT customer, COUNT(*) AS orders, SUM(cents) AS cents FROM {orders} GROUP BY customer) AS o
JOIN customers AS c ON o.customer = c.id
"""


def customers(env: StreamExecutionEnvironment, postgres: str) -> Table:
    """The table of customers, of which each row is good from its column `since` on."""
    changes = env.from_source(
        PostgresChangesSource(postgres, "customers"),
        # There is always somebody who moves. A table that may rest would hold up the orders, which wait for its
        # versions, unless with_idleness() said after how long not to wait.
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("since"),
        "customers",
    ).set_parallelism(1)  # a table has one log
    versions = Schema.new_builder().primary_key("id").build()
    return env.tables.from_changelog_stream(changes, versions)


def build(env: StreamExecutionEnvironment, kafka: str, postgres: str, lake: Path) -> None:
    """The whole job: three sinks, which share the two sources."""
    orders = env.from_source(
        KafkaSource(kafka, ["orders"], JsonFormat(ORDER)),
        WatermarkStrategy.for_bounded_out_of_orderness("1 s").with_timestamp_assigner("placed"),
        "orders",
    )
    env.tables.create_temporary_view("customers", customers(env, postgres))

    enriched = env.sql(ENRICHED, orders=orders).with_rowtime("placed")
    enriched.sink_to(DeltaSink(lake, ENRICHED_ORDER)).name("to Delta Lake")

    alerts = env.sql(ALERTS, enriched=enriched)
    exactly_once = DeliveryGuarantee.EXACTLY_ONCE
    alerts.sink_to(KafkaSink(kafka, "alerts", JsonFormat(), key="customer", delivery_guarantee=exactly_once)).name(
        "to Kafka: alerts"
    )

    totals = env.sql(TOTALS, orders=orders)
    totals.key_by("customer").sink_to(PostgresSink(postgres, "totals", key="customer")).name("to PostgreSQL: totals")


# -- running it --------------------------------------------------------------------------------------------------


def run(kafka: KafkaBroker, postgres: PostgresServer, target: str, seconds: float, out: Path, parallelism: int) -> bool:
    """Whether the job has computed what the shop knows."""
    lake = out.resolve() / "orders"
    shutil.rmtree(lake, ignore_errors=True)
    shop = Shop(kafka, postgres)
    with tempfile.TemporaryDirectory(prefix="orders-") as checkpoints:
        env = StreamExecutionEnvironment.get_execution_environment(
            {
                "execution.target": target,
                "parallelism.default": parallelism,
                "execution.checkpointing.interval": "2 s",
                "execution.checkpointing.dir": checkpoints,
            }
        )
        build(env, kafka.servers, postgres.uri, lake)
        client = env.execute_async("orders")
        try:
            watch(shop, postgres, client, seconds)
            client.stop_with_savepoint(checkpoints, drain=True)  # which completes all windows, and commits
            client.result()
        except BaseException:
            client.cancel()
            with contextlib.suppress(Exception):
                client.result(timeout=30)
            raise
    return report(kafka, postgres, lake)


def watch(shop: Shop, postgres: PostgresServer, client: JobClient, seconds: float) -> None:
    """The shop is open for so long, and then the job has some time to come after."""
    # Of customers who move before the job has read the table, it would not know where they lived before.
    wait_until(lambda: bool(postgres.execute("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'")), client)
    begin, shown = time.monotonic(), 0.0
    print("   s     placed     in totals", flush=True)
    while (now := time.monotonic() - begin) < seconds:
        shop.serve()
        if now >= shown:
            check(client)
            ((counted,),) = postgres.execute("SELECT coalesce(sum(orders), 0) FROM totals")
            print(f"{now:4.0f} {shop.orders:10} {counted:13}", flush=True)
            shown += 2
    shop.close()
    with contextlib.suppress(TimeoutError):  # the report says what is not there
        wait_until(lambda: not any(differences(*totals(postgres))), client)


def wait_until(is_so: Callable[[], bool], client: JobClient) -> None:
    """Waits for at most three minutes, while the job runs."""
    end = time.monotonic() + 180
    while not is_so():
        check(client)
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.2)


def check(client: JobClient) -> None:
    """Raises what the job failed of, if it did."""
    if client.status().is_terminal:
        client.result()


# -- what it should have computed ----------------------------------------------------------------------------------

Rows = list[tuple[Any, ...]]


def totals(postgres: PostgresServer) -> tuple[Rows, Rows]:
    """The totals that there are, and those that there should be: with customers as they are now."""
    expected = """
        SELECT customer, name, c.country, count(*), sum(cents)::bigint
        FROM placed JOIN customers AS c ON customer = c.id
        GROUP BY customer, name, c.country
    """
    return postgres.execute("SELECT customer, name, country, orders, cents FROM totals"), postgres.execute(expected)


def in_lake(postgres: PostgresServer, lake: Path) -> tuple[Rows, Rows]:
    """Orders in Delta Lake with the countries of their customers, and as they were placed."""
    found = DeltaTable(lake).to_pyarrow_table(columns=["id", "customer", "country", "cents"]).to_pydict()
    return list(zip(*found.values(), strict=True)), postgres.execute("SELECT id, customer, country, cents FROM placed")


def alerts(kafka: KafkaBroker, postgres: PostgresServer) -> tuple[Rows, Rows]:
    """The alerts in the topic, of committed transactions alone, and those that there should be."""
    kinds = {"customer": int, "window_start": datetime, "cents": int}
    env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "local"})
    messages = KafkaSource(kafka.servers, ["alerts"], JsonFormat(kinds), stop="latest")
    found = env.from_source(messages, WatermarkStrategy.no_watermarks(), "alerts").to_arrow().to_pylist()
    expected = """
        SELECT customer, date_bin('5 s', placed AT TIME ZONE 'UTC', 'epoch') AS start, sum(cents)::bigint
        FROM placed JOIN customers AS c ON customer = c.id
        GROUP BY customer, credit, start
        HAVING sum(cents) > credit
    """
    return [(row["customer"], row["window_start"], row["cents"]) for row in found], postgres.execute(expected)


def differences(found: Rows, expected: Rows) -> tuple[int, int]:
    """How many rows are missing, and how many are there that should not be."""
    ours, theirs = Counter(found), Counter(expected)
    return (theirs - ours).total(), (ours - theirs).total()


def report(kafka: KafkaBroker, postgres: PostgresServer, lake: Path) -> bool:
    """Prints what was computed beside what the shop knows; whether it is the same."""
    compared = {
        f"orders in {lake}": in_lake(postgres, lake),
        "alerts in Kafka": alerts(kafka, postgres),
        "totals in PostgreSQL": totals(postgres),
    }
    is_right, width = True, max(map(len, compared))
    print(f"\n{'':{width}} {'rows':>8} {'missing':>8} {'too many':>8}")
    for what, (found, expected) in compared.items():
        missing, spare = differences(found, expected)
        is_right = is_right and not missing and not spare
        print(f"{what:{width}} {len(found):8} {missing:8} {spare:8}")
    print("\nWho ordered most:")
    for name, country, orders, cents in postgres.execute(
        "SELECT name, country, orders, cents FROM totals ORDER BY cents DESC LIMIT 5"
    ):
        print(f"{name:12} {country:8} {orders:6} orders {cents / 100:12,.2f}")
    return is_right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", choices=("ray", "local"), default="ray", help="where the job runs")
    parser.add_argument("--seconds", type=float, default=30, help="for how long there are orders")
    parser.add_argument("--out", type=Path, default=Path("orders-report"), help="directory for the table of all orders")
    parser.add_argument("--parallelism", type=int, default=2, help="subtasks per operator")
    arguments = parser.parse_args()
    given = (arguments.target, arguments.seconds, arguments.out, arguments.parallelism)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # so that the servers end, too
    print("starting Kafka and PostgreSQL ...", flush=True)
    try:
        with KafkaBroker.running() as kafka, PostgresServer.running() as postgres:
            is_right = run(kafka, postgres, *given)
    except ServerUnavailable as unavailable:
        sys.exit(str(unavailable))
    if not is_right:
        sys.exit("the job computed something else than the shop knows")


if __name__ == "__main__":
    main()
