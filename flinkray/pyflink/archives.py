"""Java archives that programs bring along: those of what is built in here are left out, and others are refused."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

from flinkray.errors import InvalidProgramError

NO_JAVA = "jars cannot run here; use Python libraries in your functions, or a Source or Sink of your own"
_LOG = logging.getLogger(__name__)
_BUILT_IN = re.compile(
    r"connector-kafka|kafka-clients|connector-files"
    r"|connector-jdbc(-core|-postgres)?(-\d|\.jar)|postgresql-\d|connector-postgres-cdc|iceberg-flink|flink-s3-fs"
    r"|(flink|sql)-(avro|csv|json|orc|parquet|protobuf)"
)
"""Parts of the names of archives for which there is something here."""


def leave_out(paths: Sequence[str], what: str) -> None:
    """Leaves out archives of what is built in here, with a line in the log.

    Args:
        what: asks for them, as it begins an error: "add_jars".

    Raises:
        InvalidProgramError: another one is among them.
    """
    for path in paths:
        if not _BUILT_IN.search(path.rpartition("/")[2]):
            raise InvalidProgramError(f"{what}({path!r}): {NO_JAVA}")
    if paths:
        _LOG.warning("%s: %s: what is in there is built in here", what, ", ".join(paths))
