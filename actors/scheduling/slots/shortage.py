"""What is said to a job that does not get its slots: what it needs, what there is, and what helps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from actors.protocol.resources import ClusterOverview, SlotRequest
from actors.scheduling.slots.slot_sharing import SharedSlot
from flinkray.config.options import PARALLELISM, SLOT_CPUS, SLOT_REQUEST_TIMEOUT
from flinkray.errors import ErrorInfo, NoResourceAvailableError


def shortage_error(
    job_name: str,
    slots: Sequence[SharedSlot],
    missing: int,
    overview: ClusterOverview | None,
    reason: str,
    *,
    has_run: bool,
) -> ErrorInfo:
    """The NoResourceAvailableError of a job that needs `slots` in all and has got all but `missing` of them.

    Args:
        has_run: it has had all of them before, so that it may get them again.
    """
    requests = [slot.request for slot in slots]
    profiles = Counter(request.profile for request in requests)
    needs = " and ".join(f"{count} slot(s) of {profile}" for profile, count in profiles.items())
    has = str(overview) if overview is not None else "unknown, as its ResourceManager does not answer"
    advice = [
        f"lower {PARALLELISM.key!r}",
        "put operators into one slot sharing group, so that they share slots",
        f"set {SLOT_CPUS.key!r} below {_largest(requests):g}, so that a slot takes less of the cluster",
        "add nodes, or end what else takes CPUs there (Spark executors, other jobs)",
    ]
    if overview is None or overview.total_cpus is None:
        advice.append(f"raise {SLOT_REQUEST_TIMEOUT.key!r} if the cluster is still growing")
    error = NoResourceAvailableError(
        f"job {job_name!r} needs {needs} and did not get {missing} of them: {reason}. "
        f"The cluster has: {has}. What helps: {'; '.join(advice)}."
    )
    return replace(ErrorInfo.of(error), is_recoverable=has_run)


def fit_one_by_one(groups: Iterable[Iterable[SlotRequest]], overview: ClusterOverview | None) -> bool:
    """Whether the cluster has the CPUs for each of the groups of slots, if not for all at once; False: nobody knows."""
    if overview is None or overview.total_cpus is None:
        return False
    return max(sum(request.profile.cpus for request in group) for group in groups) <= overview.total_cpus


def _largest(requests: Sequence[SlotRequest]) -> float:
    return max((request.profile.cpus for request in requests), default=0.0)
