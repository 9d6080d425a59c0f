"""The names of a sink's transactions, and which of those that are open were left behind."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable


def transactional_id(prefix: str, subtask: int, checkpoint_id: int) -> str:
    """A name that no other transaction has.

    Args:
        checkpoint_id: the last checkpoint before the transaction begins, 0 if there is none.
    """
    return f"{prefix}-{subtask}-{checkpoint_id}-{uuid.uuid4().hex[:12]}"


def left_behind(
    open_ids: Iterable[str], prefixes: Iterable[str], subtask: int, parallelism: int, restored_checkpoint_id: int
) -> list[str]:
    """The open transactions that a subtask has to abort before it writes.

    Those that began after the checkpoint from which the job goes on are in none that counts. Earlier ones are: they are
    committed, by whichever subtask got them. Each subtask looks after the transactions of its own index, and of those
    that a higher parallelism had.
    """
    pattern = re.compile(f"(?:{'|'.join(map(re.escape, prefixes))})-(\\d+)-(\\d+)-[0-9a-f]{{12}}")
    matches = [(each, pattern.fullmatch(each)) for each in open_ids]
    return [
        each
        for each, match in matches
        if match and int(match[1]) % parallelism == subtask and int(match[2]) >= restored_checkpoint_id
    ]
