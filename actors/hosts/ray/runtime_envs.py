"""Ray's runtime environments of the processes that run a job's functions."""

from __future__ import annotations

import json
from typing import Any

import ray

# What a driver was submitted with that its functions need as well. Not the variables, which may be secrets, and would
# be kept with the job: those of the session's own processes stay, and the option python.runtime-env adds others.
_OF_CODE = ("working_dir", "py_modules", "pip", "uv", "conda")


def with_that_of_driver(runtime_env: str) -> str:
    """A job's runtime environment, and below it the code and packages that the connected driver was submitted with
    (`ray job submit --working-dir`).

    Args:
        runtime_env: as the option python.runtime-env says it; what it gives is what comes back, too.
    """
    of_driver: dict[str, Any] = dict(ray.get_runtime_context().runtime_env)
    own = json.loads(runtime_env or "{}")
    merged = {**{key: of_driver[key] for key in _OF_CODE if key in of_driver}, **own}
    return json.dumps(merged, sort_keys=True) if merged else ""
