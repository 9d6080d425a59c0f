"""The shop of `examples/orders.py`: customers in PostgreSQL who move, and orders in Kafka."""

from __future__ import annotations

import json
import random
import time
from datetime import UTC, datetime

from confluent_kafka import Producer

from examples.servers.kafka import KafkaBroker
from examples.servers.postgres import PostgresServer

COUNTRIES = ("Chile", "Kenya", "Norway", "Peru")
CUSTOMERS = 40
ORDERS_PER_SECOND = 200
MOVES_PER_SECOND = 5

TABLES = """
CREATE TABLE customers (
  id int PRIMARY KEY, name text NOT NULL, country text NOT NULL, credit bigint NOT NULL, since timestamptz NOT NULL
);
ALTER TABLE customers REPLICA IDENTITY FULL;  -- so that the log has rows as they were before a change, too
CREATE TABLE totals (customer int PRIMARY KEY, name text, country text, orders bigint, cents bigint);
CREATE TABLE placed (id bigint PRIMARY KEY, customer int, country text, cents bigint, placed timestamptz);
"""


class Shop:
    """Has its customers order and move, and knows what they ordered, for the report at the end.

    What a customer may spend in a few seconds is `credit`. Each order is written down in `placed` as well, with the
    country of the customer at that time.
    """

    def __init__(self, kafka: KafkaBroker, postgres: PostgresServer, seed: int = 1) -> None:
        self._postgres = postgres
        self._producer = Producer({"bootstrap.servers": kafka.servers, "linger.ms": 20, "log_level": 0})
        self._random = random.Random(seed)
        self._countries = {customer: self._random.choice(COUNTRIES) for customer in range(CUSTOMERS)}
        self._placed: list[tuple[object, ...]] = []
        kafka.add_topic("orders", partitions=2)
        kafka.add_topic("alerts")
        postgres.execute(TABLES)
        for customer, country in self._countries.items():
            postgres.execute(
                "INSERT INTO customers VALUES (%s, %s, %s, %s, now())",
                *(customer, f"Customer {customer}", country, self._random.choice((100_000, 200_000, 400_000))),
            )

    @property
    def orders(self) -> int:
        """How many orders there were so far."""
        return len(self._placed)

    def serve(self) -> None:
        """Somebody moves, and then there are the orders of a fifth of a second."""
        self._move()
        for _ in range(ORDERS_PER_SECOND // MOVES_PER_SECOND):
            self._order()
        self._producer.poll(0)
        time.sleep(1 / MOVES_PER_SECOND)  # event time has milliseconds: orders and the next move need different ones

    def close(self) -> None:
        """All orders are in Kafka, and in the table `placed`."""
        self._producer.flush(30)
        with self._postgres.connection.cursor().copy("COPY placed FROM STDIN") as copy:
            for row in self._placed:
                copy.write_row(row)

    def _order(self) -> None:
        customer = min(int(self._random.expovariate(4 / CUSTOMERS)), CUSTOMERS - 1)  # some order far more than others
        cents, placed = self._random.randint(100, 9_999), datetime.now(UTC)
        order = {"id": self.orders, "customer": customer, "cents": cents, "placed": placed.isoformat()}
        self._producer.produce("orders", json.dumps(order), key=str(customer))
        self._placed.append((self.orders, customer, self._countries[customer], cents, placed))

    def _move(self) -> None:
        customer, country = self._random.randrange(CUSTOMERS), self._random.choice(COUNTRIES)
        self._postgres.execute(
            "UPDATE customers SET country = %s, since = %s WHERE id = %s", country, datetime.now(UTC), customer
        )
        self._countries[customer] = country
