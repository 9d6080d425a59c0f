"""What the pages about connectors show runs against real servers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.servers.kafka import KafkaBroker

DOCS = Path(__file__).parents[2] / "docs" / "connectors"


@pytest.mark.kafka
def test_the_program_about_kafka(kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    orders, totals = kafka.create_topic(), kafka.create_topic()
    kafka.write(orders, [json.dumps({"user": user, "cents": 10}).encode() for user in "abba"], timestamp=1_000)
    (program,) = re.findall(r"```python\n(.*?)```", (DOCS / "kafka.md").read_text(encoding="utf-8"), re.DOTALL)
    for shown, here in (("localhost:9092", kafka.servers), ('"orders"]', f'"{orders}"]'), ('"totals"', f'"{totals}"')):
        assert shown in program
        program = program.replace(shown, here)
    monkeypatch.setenv("FLINKRAY_EXECUTION_TARGET", "local")
    exec(compile(program, "kafka.md", "exec"), {"__name__": "__main__"})
    found = [json.loads(message.value()) for message in kafka.read(totals, 2)]
    assert sorted((each["user"], each["cents"]) for each in found) == [("a", 20), ("b", 20)]
