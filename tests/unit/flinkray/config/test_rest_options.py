"""The options of the REST server."""

from __future__ import annotations

import pytest

from flinkray.config.configuration import Configuration
from flinkray.config.rest_options import REST_BIND_PORT, REST_PORT, ports_of
from flinkray.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "ports"),
    [("8081", (8081,)), ("8081, 8090-8092", (8081, 8090, 8091, 8092)), ("0", (0,)), ("", ())],
)
def test_ports_are_tried_in_the_order_in_which_they_are_named(text: str, ports: tuple[int, ...]) -> None:
    assert ports_of(Configuration({"rest.bind-port": text}).get(REST_BIND_PORT)) == ports


@pytest.mark.parametrize("wrong", ["x", "8090-8081", "70000", "1-99999", "-5", "80 81", "1-2-3"])
def test_what_is_no_port_is_refused_where_it_is_set(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=r"rest\.bind-port"):
        Configuration({"rest.bind-port": wrong})


@pytest.mark.parametrize("wrong", [-1, 65_536, "any"])
def test_a_port_is_within_its_range(wrong: object) -> None:
    with pytest.raises(ConfigurationError, match=r"rest\.port"):
        Configuration({REST_PORT.key: wrong})
