"""Where what outlives the masters is kept.

<high-availability.storageDir>/<cluster id>/dispatcher/     log of the jobs, their JobGraphs and results
<high-availability.storageDir>/<cluster id>/<job id>/       log of a job's JobMasters and checkpoints
"""

from __future__ import annotations

from flinkray.config.configuration import Configuration
from flinkray.config.options import CHECKPOINT_DIRECTORY, HIGH_AVAILABILITY_DIRECTORY


def high_availability_directory(configuration: Configuration, cluster_id: str) -> str:
    """The directory of the cluster (path or URI); "" where nothing outlives the masters."""
    chosen = configuration.get(HIGH_AVAILABILITY_DIRECTORY)
    checkpoints = configuration.get(CHECKPOINT_DIRECTORY)
    if not chosen and not checkpoints:
        return ""
    from flinkray.filesystems import absolute, join  # loads Arrow, which most ResourceManagers do without

    directory = absolute(chosen) if chosen else join(absolute(checkpoints), "ha")
    return join(directory, cluster_id)
