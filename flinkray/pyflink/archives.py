"""Java archives that programs bring along: those of what is built in here are left out, and others are refused."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

from flinkray.errors import InvalidProgramError

NO_JAVA = "jars cannot run here; use Python libraries in your functions, or a Source or Sink of your own"
_LOG = logging.getLogger(__name__)
_BUILT_IN = re.compile(
    r"(flink-(sql-)?connector-(kafka(-base)?|files|jdbc(-core|-postgres)?|postgres-cdc)|kafka-clients|postgresql"
    r"|iceberg-flink(-runtime)?|flink-s3-fs-(hadoop|presto)"
    r"|flink-(sql-)?(avro(-confluent-registry)?|csv|json|orc|parquet|protobuf))(_2\.\d+)?(-\d[\w.-]*)?\.jar"
)
"""Names of archives for which there is something here: with the versions of Scala and of theirs, or without."""


def leave_out(paths: Sequence[str], what: str) -> None:
    """Leaves out archives of what is built in here, with a line in the log.

    Args:
        what: asks for them, as it begins an error: "add_jars".

    Raises:
        InvalidProgramError: another one is among them.
    """
    for path in paths:
        if not _BUILT_IN.fullmatch(re.split(r"[/\\]", path)[-1]):
            raise InvalidProgramError(f"{what}({path!r}): {NO_JAVA}")
    if paths:
        _LOG.warning("%s: %s: what is in there is built in here", what, ", ".join(paths))
