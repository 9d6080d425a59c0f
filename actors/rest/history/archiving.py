"""Writing the archive of a job."""

from __future__ import annotations

import hashlib
import logging
import posixpath
from collections.abc import Mapping
from importlib.metadata import version

import msgspec

from actors.protocol.control_messages import JobDetails
from actors.rest.history.archive import archives_of
from actors.storage.files import write_atomically
from flinkray.filesystems import resolve
from flinkray.redaction import redacted

log = logging.getLogger(__name__)

SUMMARY = "application-summary"


def archive_job(directory: str, cluster_id: str, configuration: Mapping[str, str], details: JobDetails) -> None:
    """Writes what is kept of a job below a directory (path or URI), as Flink 2.3 does:
    `<cluster>/applications/<id>/application-summary`, and `…/jobs/<id>` beside it.

    Never raises: a job has ended as it has, whether or not that can be written down. Takes a moment; any thread.
    """
    try:
        job, application = archives_of(details, cluster_id, configuration, version("flinkray"))
        system, root = resolve(directory)
        # Flink's clusters have ids of 32 hexadecimal digits.
        cluster = hashlib.md5(cluster_id.encode(), usedforsecurity=False).hexdigest()
        place = posixpath.join(root, cluster, "applications", details.job_id)
        system.create_dir(posixpath.join(place, "jobs"), recursive=True)
        for name, archive in ((SUMMARY, application), (posixpath.join("jobs", details.job_id), job)):
            write_atomically(system, posixpath.join(place, name), msgspec.json.encode(archive))
    except Exception:
        log.warning("job %r is not in the history in %s", details.name, redacted(directory), exc_info=True)
