"""The address of Ray's dashboard, where jobs can be watched."""

from __future__ import annotations

from flinkray.plugins import BRIDGES, load_plugin


def ray_dashboard() -> str:
    """The address of the connected Ray cluster's dashboard, with how to get in where it asks for a token.

    Empty where the process is not connected to Ray, or the cluster has no dashboard.
    """
    address: str = load_plugin(BRIDGES, "ray-dashboard")()
    return address
