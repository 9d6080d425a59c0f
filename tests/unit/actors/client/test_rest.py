"""When a REST server is started."""

from __future__ import annotations

from actors.client.rest import is_wanted
from flinkray.config.configuration import Configuration


def test_nothing_listens_that_nobody_has_asked_for() -> None:
    assert not is_wanted(Configuration({"rest.bind-address": "127.0.0.1", "web.refresh-interval": "1 s"}))
    assert is_wanted(Configuration({"rest.port": 8081}))
    assert is_wanted(Configuration({"rest.bind-port": "8081-8090"}))
