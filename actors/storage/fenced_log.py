"""A log for a value that one owner at a time may replace, and the next owner finds (as a versioned node of ZooKeeper).

    log-1 (generation 1 takes over)   log-2   log-3   log-4 (generation 2 takes over)   log-5 ...

Each file has the whole value at that moment. An owner appends under the number after its own last one, and an owner
that takes over uses that very number, so that one of the two fails. For this, the first record of a generation is never
removed; an owner removes its other records once there is a newer one.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import uuid

from msgspec import Struct

from actors.storage.record_files import RecordFiles
from flinkray.errors import CheckpointError, FlinkrayError

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 100
"""Attempts to take over while others go on writing; each fails only if somebody else's succeeds."""

_NAME = re.compile(r"log-([0-9]{10})")


class LeadershipLostError(FlinkrayError):
    """Another owner has taken over; this one must not act as the leader any more."""


class Record(Struct, frozen=True):
    """The value at one moment."""

    generation: int
    """The number of the owner, counted from 1; 0 before the first."""
    owner: str
    """An id that is unique among all owners."""
    content: bytes


NOTHING = Record(0, "", b"")


class FencedLog:
    """One owner's view of the log. Used by one thread at a time; blocks, as its files do.

    Args:
        what: names the value in errors: "the checkpoints of job ...".
    """

    def __init__(self, files: RecordFiles, what: str) -> None:
        self._files = files
        self._what = what
        self._claim: Record = NOTHING
        """The record with which this owner took over."""
        self._first = 0
        """The number of that record."""
        self._sequence = 0
        """The number of this owner's newest record; 0: it has not taken over."""
        self._superseded: list[int] = []
        """The numbers of this owner's records that are to be removed."""

    def take(self) -> Record:
        """Takes over: no former owner can write from now on. Returns the value, with the generation of this owner.

        Raises:
            CheckpointError: the log cannot be read or written; names the file.
        """
        self._files.make_directory()
        owner = uuid.uuid4().hex
        for _ in range(MAX_ATTEMPTS):
            sequence, former = self._newest()
            claim = Record(former.generation + 1, owner, former.content)
            # A free number may have been used, and its file removed, long ago; then there are higher numbers.
            if self._files.create(_name(sequence + 1), encode(claim)) and self._last() == sequence + 1:
                self._claim, self._first, self._sequence = claim, sequence + 1, sequence + 1
                self._superseded.clear()
                return claim
        raise CheckpointError(f"{self._what}: cannot be taken over, as others keep writing to {self._files.directory}")

    def append(self, content: bytes) -> None:
        """Replaces the value.

        Raises:
            LeadershipLostError: another owner has taken over, or the log was removed; the value is unchanged.
            CheckpointError: the log cannot be written; the next owner may find the former value or this one.
        """
        if self._sequence == 0:
            raise LeadershipLostError(f"{self._what}: cannot be changed by one that has not taken over")
        if self._last() == 0:
            raise LeadershipLostError(f"{self._what}: nothing is left of it in {self._files.directory}")
        record = encode(Record(self._claim.generation, self._claim.owner, content))
        for _ in range(MAX_ATTEMPTS):
            if self._files.create(_name(self._sequence + 1), record):
                self._supersede(self._sequence + 1)
                return
            self._go_on_after(self._sequence + 1)
        raise CheckpointError(f"{self._what}: {self._path(self._sequence + 1)} comes and goes")

    # -- inside --------------------------------------------------------------------------------------------------

    def _go_on_after(self, sequence: int) -> None:
        """Goes on when a number is in use: by an earlier attempt of this owner's, else another owner has taken over."""
        try:
            record = self._read(sequence)
        except FileNotFoundError:
            return  # the attempt that failed has removed its file
        if record is None or record.owner != self._claim.owner:
            by = "somebody else" if record is None else f"generation {record.generation}"
            raise LeadershipLostError(f"{self._what}: was taken over by {by} ({self._path(sequence)})")
        self._supersede(sequence)

    def _supersede(self, sequence: int) -> None:
        """A newer record of this owner is durable: removes those before it, except the first of the generation."""
        if self._sequence != self._first:
            self._superseded.append(self._sequence)
        self._sequence = sequence
        while self._superseded:
            try:
                self._files.remove(_name(self._superseded[0]))
            except CheckpointError as error:
                log.debug("%s: %s; it is tried again with the next", self._what, error)
                return
            del self._superseded[0]

    def _last(self) -> int:
        """The highest number in use; 0 if there is none."""
        matches = (_NAME.fullmatch(name) for name in self._files.names())
        return max((int(match[1]) for match in matches if match is not None), default=0)

    def _newest(self) -> tuple[int, Record]:
        """The highest number in use, and the newest record that was completed."""
        for _ in range(MAX_ATTEMPTS):
            last = self._last()
            try:
                return last, self._completed(last)
            except FileNotFoundError:
                continue  # its owner has written a newer record in between, and removed this one
        raise CheckpointError(f"{self._what}: cannot be read while {self._files.directory} changes all the time")

    def _completed(self, last: int) -> Record:
        """The newest record that was written to its end."""
        for sequence in range(last, 0, -1):
            try:
                record = self._read(sequence)
            except FileNotFoundError:
                if sequence == last:
                    raise
                # A record is removed only after the next one is complete.
                lost = f"{self._path(sequence + 1)} is torn, and the record before it is gone"
                raise CheckpointError(f"{self._what}: {lost}") from None
            if record is not None:
                return record
            log.warning("%s: %s was never completed; the record before it counts", self._what, self._path(sequence))
        return NOTHING

    def _read(self, sequence: int) -> Record | None:
        try:
            return decode(self._files.read(_name(sequence)))
        except ValueError as error:
            raise CheckpointError(f"{self._what}: {self._path(sequence)} is corrupt: {error}") from error

    def _path(self, sequence: int) -> str:
        return f"{self._files.directory}/{_name(sequence)}"


def _name(sequence: int) -> str:
    return f"log-{sequence:010}"


def encode(record: Record) -> bytes:
    """A record as the bytes of its file: one line about the content, and the content."""
    about = {
        "generation": record.generation,
        "owner": record.owner,
        "length": len(record.content),
        "sha256": _digest(record),
    }
    return json.dumps(about).encode() + b"\n" + record.content


def decode(data: bytes) -> Record | None:
    """The record in a file; None if its writer did not come to the end.

    Raises:
        ValueError: the bytes are no record.
    """
    line, end, content = data.partition(b"\n")
    if not end:
        return None
    try:
        about = json.loads(line)
        record = Record(about["generation"], about["owner"], content)
        length, digest = about["length"], about["sha256"]
    except (ValueError, KeyError, TypeError):
        raise ValueError("its first line cannot be read") from None
    if len(content) < length:
        return None
    if _digest(record) != digest:
        raise ValueError("its checksum does not match")
    return record


def _digest(record: Record) -> str:
    return hashlib.sha256(f"{record.generation} {record.owner} ".encode() + record.content).hexdigest()
