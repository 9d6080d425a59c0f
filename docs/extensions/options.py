"""The reference of all options as MyST text, made from their declarations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flinkray.config.option import ANY, ConfigOption

# Each option belongs to the longest prefix that it has. One without a group is an error, so that none is forgotten.
GROUPS = {
    "The program": ("parallelism.", "pipeline.", "execution."),
    "Tables and SQL": ("table.", "flinkray.table."),
    "Batches and the network": ("flinkray.batch.", "flinkray.network.", "taskmanager.network."),
    "Checkpoints": ("execution.checkpointing.", "execution.state-recovery."),
    "State": ("state.",),
    "Failures": ("restart-strategy.", "jobmanager.", "high-availability.", "heartbeat."),
    "The cluster": (
        "flinkray.cluster-id",
        "flinkray.slot.",
        "slot.",
        "taskmanager.",
        "resourcemanager.",
        "jobstore.",
        "python.",
        "io.",
    ),
    "The autoscaler": ("job.autoscaler.",),
    "Metrics and logs": ("metrics.", "flinkray.logging."),
    "Sinks": ("sink.",),
    "The REST server": ("rest.", "web."),
}


WITHOUT_EFFECT = "Options of Flink without effect"
"""The title of those that are taken for the sake of programs that set them; with a warning, once."""


def option_reference(options: Iterable[ConfigOption[Any]]) -> str:
    """A section for each group, and in it an entry for each option, by key: type, default, and what it means."""
    grouped: dict[str, list[ConfigOption[Any]]] = {title: [] for title in GROUPS}
    for option in sorted(options, key=lambda option: option.key):
        grouped.setdefault(WITHOUT_EFFECT if option.no_effect else group_of(option.key), []).append(option)
    sections = (
        f"## {title}\n\n" + "\n\n".join(_entry(option) for option in members) for title, members in grouped.items()
    )
    return "\n\n".join(sections) + "\n"


def group_of(key: str) -> str:
    """The title of the group that an option is shown in.

    Raises:
        LookupError: no group has a prefix of the key.
    """
    fitting = [
        (len(prefix), title) for title, prefixes in GROUPS.items() for prefix in prefixes if key.startswith(prefix)
    ]
    if not fitting:
        raise LookupError(f"option {key!r} has no group: add its prefix to GROUPS in {__name__}")
    return max(fitting)[1]


def _entry(option: ConfigOption[Any]) -> str:
    valid = "" if option.valid is ANY else f", {option.valid.words}"
    return "\n".join(
        [
            f"```{{confval}} {option.key}",
            f":type: {_type(option)}{valid}",
            f":default: {_default(option)}",
            "",
            option.doc,
            "```",
        ]
    )


def _type(option: ConfigOption[Any]) -> str:
    """The type in a user's words, with the unit of a plain number."""
    if _takes(option, "1 s"):
        return "duration"
    names = {bool: "true or false", int: "whole number", float: "number", str: "text", dict: "names and values"}
    name = names[type(option.default)]
    return f"{name} of {option.unit}" if option.unit else name


def _takes(option: ConfigOption[Any], raw: str) -> bool:
    """Whether text becomes something else than text: of all types, durations alone take `1 s` so."""
    try:
        return not isinstance(option.parse(raw), str)
    except (TypeError, ValueError):
        return False


def _default(option: ConfigOption[Any]) -> str:
    if option.default in ("", {}):
        return "none"
    if isinstance(option.default, bool):
        return f"`{str(option.default).lower()}`"
    if _takes(option, "1 s"):
        return f"`{_duration(option.default)}`"
    if option.unit == "bytes":
        return f"`{option.default}` ({_bytes(option.default)})"
    return f"`{option.default}`"


def _duration(milliseconds: int) -> str:
    """As a user writes it, in the largest unit that it is a whole number of."""
    units: Mapping[str, int] = {"h": 3_600_000, "min": 60_000, "s": 1_000}
    for unit, size in units.items():
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size} {unit}"
    return f"{milliseconds} ms"


def _bytes(number: int) -> str:
    for unit, size in {"MiB": 1 << 20, "KiB": 1 << 10}.items():
        if number % size == 0:
            return f"{number // size} {unit}"
    return f"{number} bytes"
