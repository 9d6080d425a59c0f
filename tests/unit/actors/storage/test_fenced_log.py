"""A value that one owner at a time may replace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from actors.storage.fenced_log import FencedLog, LeadershipLostError, Record, decode, encode
from flinkray.errors import CheckpointError
from tests.support.high_availability import FilesInTurns, Turns


class PlainFiles:
    """RecordFiles without any turns."""

    directory = "memory"

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def make_directory(self) -> None: ...

    def names(self) -> list[str]:
        return list(self.files)

    def read(self, name: str) -> bytes:
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.files[name]

    def create(self, name: str, content: bytes) -> bool:
        return self.files.setdefault(name, content) is content

    def remove(self, name: str) -> None:
        self.files.pop(name, None)


@pytest.fixture
def files() -> PlainFiles:
    return PlainFiles()


def log_of(files: PlainFiles) -> FencedLog:
    return FencedLog(files, "the value")


def taken(files: PlainFiles) -> FencedLog:
    log = log_of(files)
    log.take()
    return log


def test_the_first_owner_finds_nothing_and_the_next_what_it_has_written(files: PlainFiles) -> None:
    first = log_of(files)
    assert first.take().content == b""
    first.append(b"one")
    first.append(b"two")
    claim = log_of(files).take()
    assert (claim.generation, claim.content) == (2, b"two")


def test_an_owner_that_was_taken_over_cannot_write_however_much_the_next_one_has_written(files: PlainFiles) -> None:
    for written in range(4):
        former = taken(files)
        former.append(b"former")
        other = taken(files)
        for number in range(written):
            other.append(f"other {number}".encode())
        before = dict(files.files)
        with pytest.raises(LeadershipLostError, match="the value: was taken over by generation"):
            former.append(b"late")
        assert files.files == before


def test_one_that_has_not_taken_over_cannot_write(files: PlainFiles) -> None:
    with pytest.raises(LeadershipLostError, match="has not taken over"):
        log_of(files).append(b"x")


def test_a_log_that_was_removed_cannot_be_written_by_its_former_owner(files: PlainFiles) -> None:
    log = taken(files)
    log.append(b"x")
    files.files.clear()
    with pytest.raises(LeadershipLostError, match="nothing is left of it"):
        log.append(b"y")
    assert files.files == {}


def test_an_owner_keeps_its_claim_and_its_newest_record_only(files: PlainFiles) -> None:
    log = taken(files)
    for number in range(20):
        log.append(str(number).encode())
    assert sorted(files.files) == ["log-0000000001", "log-0000000021"]


def test_a_record_that_was_never_completed_does_not_count(files: PlainFiles) -> None:
    log = taken(files)
    log.append(b"one")
    whole = encode(Record(1, "me", b"two"))
    for length in (0, 1, len(whole) - 1):
        torn = log_of(files)
        files.files["log-0000000003"] = whole[:length]
        assert torn.take().content == b"one"
        for name in ("log-0000000003", "log-0000000004"):
            del files.files[name]


def test_a_torn_record_whose_predecessor_is_gone_was_complete_once_and_is_an_error(files: PlainFiles) -> None:
    log = taken(files)
    log.append(b"one")
    log.append(b"two")
    files.files["log-0000000003"] = files.files["log-0000000003"][:-1]
    with pytest.raises(CheckpointError, match="memory/log-0000000003 is torn, and the record before it is gone"):
        log_of(files).take()


@pytest.mark.parametrize("position", [0, 20, 60, -1])
def test_a_corrupt_record_is_an_error_that_names_the_file(files: PlainFiles, position: int) -> None:
    taken(files).append(b"some content")
    data = bytearray(files.files["log-0000000002"])
    data[position] ^= 1
    files.files["log-0000000002"] = bytes(data)
    with pytest.raises(CheckpointError, match="the value: memory/log-0000000002 is corrupt"):
        log_of(files).take()


def test_decoding_gives_what_was_encoded_and_nothing_for_its_beginnings() -> None:
    record = Record(3, "owner", b"a\nb\x00")
    data = encode(record)
    assert decode(data) == record
    assert all(decode(data[:length]) is None for length in range(len(data)))


# -- random interleavings ----------------------------------------------------------------------------------------

Content = tuple[int, int, int]
"""Owner, its generation, and the number of its record."""


@dataclass
class History:
    """What the owners were told."""

    claims: list[tuple[int, Content | None]] = field(default_factory=list)
    """Per take that returned: generation, and what it found."""
    recorded: list[Content] = field(default_factory=list)
    doubtful: list[Content] = field(default_factory=list)
    refused: list[Content] = field(default_factory=list)
    begun: list[Content] = field(default_factory=list)


def parsed(content: bytes) -> Content | None:
    if not content:
        return None
    owner, generation, number = map(int, content.split())
    return owner, generation, number


def order(content: Content | None) -> Sequence[int]:
    return (0, 0) if content is None else content[1:]


def own(history: History, files: FilesInTurns, owner: int, turns: Turns) -> None:
    log = FencedLog(files, "the value")
    number = 0
    while number < 12:
        try:
            claim = log.take()
        except CheckpointError:
            turns.wait_turn()
            continue
        history.claims.append((claim.generation, parsed(claim.content)))
        while number < 12:
            number += 1
            content = (owner, claim.generation, number)
            history.begun.append(content)
            try:
                log.append(" ".join(map(str, content)).encode())
            except LeadershipLostError:
                history.refused.append(content)
                if turns.random.random() < 0.5:
                    return
                break
            except CheckpointError:
                history.doubtful.append(content)
            else:
                history.recorded.append(content)
            if turns.random.random() < 0.1:
                break


def check(history: History, final: tuple[int, Content | None]) -> None:
    claims = [*history.claims, final]
    generations = [generation for generation, _ in claims]
    assert len(generations) == len(set(generations)), "two owners have the same generation"
    finished = {*history.recorded, *history.doubtful, *history.refused}
    open_ended = {*history.doubtful, *(set(history.begun) - finished)}  # these of owners that died
    for generation, found in claims:
        assert found is None or found in open_ended or found in history.recorded, f"{found} was refused"
        assert order(found)[0] < generation
        for content in history.recorded:
            if content[1] < generation:
                assert order(content) <= order(found), f"{generation} found {found}, and {content} was recorded"


@pytest.mark.parametrize("faults", [0.0, 0.05, 0.2])
@pytest.mark.parametrize("seed", range(60))
def test_no_record_is_lost_and_none_comes_after_it_was_taken_over(seed: int, faults: float) -> None:
    turns = Turns(seed)
    files = FilesInTurns(turns, faults)
    history = History()
    for owner in range(turns.random.randint(1, 4)):
        turns.add(lambda owner=owner: own(history, files, owner, turns))  # type: ignore[misc]
    turns.run()
    plain = PlainFiles()
    plain.files = files.files
    claim = log_of(plain).take()
    check(history, (claim.generation, parsed(claim.content)))
    if faults == 0.0:
        assert history.recorded, "nobody ever got on"
