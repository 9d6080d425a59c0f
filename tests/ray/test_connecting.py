"""Which Ray cluster a process connects to."""

from __future__ import annotations

import os
from typing import Any

import pytest

from flinkray.errors import ConfigurationError

pytestmark = pytest.mark.ray


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where connections were tried, in a world without a Ray cluster."""
    import ray

    from actors.hosts.ray import cluster

    addresses: list[str] = []

    def init(address: str, **_: Any) -> None:
        addresses.append(address)
        if address != "local":
            raise ConnectionError(address)

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: type("Context", (), {"gcs_address": "here:1"}))
    monkeypatch.setattr(cluster, "_prepare_java", lambda: None)
    monkeypatch.setattr(cluster, "_own_address", None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return addresses


def test_without_a_cluster_a_job_starts_one_also_after_a_session_was_looked_for(tried: list[str]) -> None:
    from actors.hosts.ray.cluster import ensure_ray
    from actors.hosts.ray.sessions import connect_to_running_ray

    with pytest.raises(ConfigurationError, match="no Ray cluster is running here"):
        connect_to_running_ray()
    assert "RAY_ADDRESS" not in os.environ
    ensure_ray()
    assert tried == ["auto", "auto", "local"]


@pytest.mark.parametrize("is_chosen_early", [True, False])
@pytest.mark.usefixtures("tried")
def test_where_ray_chooses_the_port_of_metrics_early_it_is_given_one_that_no_connection_gets(
    monkeypatch: pytest.MonkeyPatch, is_chosen_early: bool
) -> None:
    import ray
    from ray._private.node import Node

    from actors.hosts.ray.cluster import start_local_cluster

    monkeypatch.setattr(Node, "_get_cached_port", None, raising=False)
    if not is_chosen_early:
        monkeypatch.delattr(Node, "_get_cached_port")
    given: list[int | None] = []
    monkeypatch.setattr(ray, "init", lambda *, _metrics_export_port, **_: given.append(_metrics_export_port))
    start_local_cluster()
    (port,) = given
    assert (port in range(20_000, 32_000)) if is_chosen_early else (port is None)


def test_a_cluster_that_was_asked_for_is_not_replaced_by_another(
    tried: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from actors.hosts.ray.cluster import ensure_ray

    monkeypatch.setenv("RAY_ADDRESS", "far:6379")
    with pytest.raises(ConnectionError):
        ensure_ray()
    assert tried == ["far:6379"]


def test_a_session_is_not_looked_for_in_a_cluster_of_ones_own(
    tried: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from actors.hosts.ray.sessions import connect_to_running_ray

    monkeypatch.setenv("RAY_ADDRESS", "local")
    with pytest.raises(ConfigurationError):
        connect_to_running_ray()
    assert not tried


def test_a_cluster_that_does_not_answer_is_named(tried: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from actors.hosts.ray.sessions import connect_to_running_ray

    monkeypatch.setenv("RAY_ADDRESS", "far:6379")
    with pytest.raises(ConfigurationError, match="no Ray cluster answers at RAY_ADDRESS=far:6379"):
        connect_to_running_ray()
    assert tried == ["far:6379"]


@pytest.mark.parametrize(
    "error",
    [ValueError("Invalid address format: far"), RuntimeError("Version mismatch:\n    Ray: 2.9\n    Python: 3.9")],
)
@pytest.mark.usefixtures("tried")
def test_a_cluster_that_ray_cannot_use_is_named_in_a_sentence(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    from actors.hosts.ray.cluster import ensure_ray
    from actors.hosts.ray.sessions import connect_to_running_ray

    def refuse(**_: Any) -> None:
        raise error

    monkeypatch.setattr(ray, "init", refuse)
    monkeypatch.setenv("RAY_ADDRESS", "far")
    for connect in (connect_to_running_ray, ensure_ray):
        with pytest.raises(ConfigurationError, match=r"the Ray cluster far cannot be connected to: \w+ [^\n]+$"):
            connect()


def test_through_ray_client_a_job_gets_no_cluster_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from actors.hosts.ray.cluster import ray_client, require_driver

    require_driver()
    monkeypatch.setattr(ray_client, "is_connected", lambda: True)
    with pytest.raises(ConfigurationError, match=r"cannot be started through Ray Client .* submit it to a session"):
        require_driver()


@pytest.mark.parametrize("has_found_no_token", [True, False])
@pytest.mark.parametrize(
    ("mode", "problem"),
    [("", "RAY_AUTH_MODE=token is not set here"), ("token", "this process shows none that it takes")],
)
@pytest.mark.usefixtures("tried")
def test_a_cluster_that_wants_a_token_says_so_and_is_not_replaced_by_another(
    monkeypatch: pytest.MonkeyPatch, mode: str, problem: str, has_found_no_token: bool
) -> None:
    import ray
    from ray.exceptions import AuthenticationError

    from actors.hosts.ray.cluster import ensure_ray
    from actors.hosts.ray.sessions import connect_to_running_ray

    def refuse(**_: Any) -> None:
        """As Ray does."""
        if has_found_no_token:
            raise AuthenticationError("no authentication token was found")
        text = "Last connection error: ... RPC error: InvalidAuthToken: Authentication token is missing or incorrect"
        raise ConnectionError("Failed to connect to Ray cluster") from RuntimeError(text)

    monkeypatch.setattr(ray, "init", refuse)
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    for address in ("", "far:6379"):
        monkeypatch.setenv("RAY_ADDRESS", address)
        for connect in (connect_to_running_ray, ensure_ray):
            with pytest.raises(ConfigurationError, match=f"the Ray cluster .* wants a token, and {problem}"):
                connect()
