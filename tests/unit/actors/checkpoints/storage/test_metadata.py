"""Metadata: whatever is written comes back, and whatever is damaged is refused."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from actors.checkpoints.storage.metadata import FORMAT_VERSION, decode, encode
from actors.protocol.checkpoint_handles import FileState, PartKind, StatePart
from flinkray.errors import CheckpointError, DamagedCheckpointError
from tests.support.checkpoints import completed, inline, operator_state, random_checkpoint, shared_file

DIRECTORY, PATH = "file:///checkpoints/job/chk-7", "/checkpoints/job/chk-7"


def small() -> bytes:
    part = StatePart("count", PartKind.SPLIT, inline(b"state"), 1)
    return encode(completed([operator_state({0: [part]})], directory=DIRECTORY), PATH)


@pytest.mark.parametrize("seed", range(100))
def test_every_checkpoint_comes_back(seed: int) -> None:
    rng = random.Random(seed)
    directory, path = rng.choice([(DIRECTORY, PATH), ("", ""), ("s3://bucket/chk-7", "bucket/chk-7"), ("/chk-7",) * 2])
    checkpoint = random_checkpoint(rng, directory, path)
    assert decode(encode(checkpoint, path), directory, path) == checkpoint


def test_every_truncation_is_refused_as_one() -> None:
    data = small()
    assert 300 < len(data) < 1_000
    for length in range(len(data)):
        with pytest.raises(CheckpointError, match=rf"{DIRECTORY} is truncated: it has {length} bytes"):
            decode(data[:length], DIRECTORY, PATH)


def test_every_flipped_bit_is_refused() -> None:
    data = small()
    for position in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[position // 8] ^= 1 << position % 8
        with pytest.raises(CheckpointError, match=DIRECTORY):
            decode(bytes(flipped), DIRECTORY, PATH)


def test_what_was_altered_or_has_more_behind_it_is_refused_by_its_checksum() -> None:
    data = small()
    for altered in (data.replace(b"a job", b"b job"), data + b" ", data.replace(b'"items":1', b'"items":2')):
        with pytest.raises(CheckpointError, match="was altered: its checksum does not match"):
            decode(altered, DIRECTORY, PATH)


@pytest.mark.parametrize("data", [b"PK\x03\x04", b"\xff" * 100, b"flinkray checkpoint 0\nx", b"\n"])
def test_what_is_no_metadata_is_refused(data: bytes) -> None:
    with pytest.raises(CheckpointError, match="does not begin as metadata does"):
        decode(data, DIRECTORY, PATH)


def test_a_newer_format_is_refused_by_its_version() -> None:
    newer = small().replace(b"flinkray checkpoint 1\n", b"flinkray checkpoint 12\n")
    with pytest.raises(CheckpointError, match=f"has format version 12, and this flinkray reads up to {FORMAT_VERSION}"):
        decode(newer, DIRECTORY, PATH)


def sealed(body: bytes) -> bytes:
    """Metadata with that body, whatever it is."""
    return b"flinkray checkpoint 1\n%s %d\n" % (hashlib.sha256(body).hexdigest().encode(), len(body)) + body


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    "body", [b"{}", b"[]", b'"text"', b"{", b"\xff", b"1" * 5_000, DEEP], ids=lambda body: body[:9]
)
def test_a_body_of_another_shape_is_refused(body: bytes) -> None:
    with pytest.raises(DamagedCheckpointError, match="whole, but not as this version of flinkray writes it"):
        decode(sealed(body), DIRECTORY, PATH)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each (dict or list, key or index) below a JSON value."""
    for key, below in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(below, dict | list):
            yield from places(below)


@pytest.mark.parametrize("wrong", [None, -1, 1 << 70, 0.5, True, "text", [], [1], [[]], {}, {"path": 7}, float("inf")])
def test_whatever_a_crafted_body_has_in_some_place_is_read_or_refused_as_damaged(wrong: Any) -> None:
    parts = [StatePart("count", PartKind.KEYED, FileState("/a/b", 1, 2, 3), 1, (0, 8), (shared_file("/a/1.sst"),))]
    whole = encode(completed([operator_state({0: [*parts, StatePart("n", PartKind.SPLIT, inline(b"s"), 1)]})]), PATH)
    body = whole[whole.index(b"{") :]
    refused = 0
    for index in range(sum(1 for _ in places(json.loads(body)))):
        crafted = json.loads(body)
        container, key = list(places(crafted))[index]
        container[key] = wrong
        try:
            encode(decode(sealed(json.dumps(crafted).encode()), DIRECTORY, PATH), PATH)
        except DamagedCheckpointError:
            refused += 1
    assert refused > 10


@pytest.mark.parametrize(
    ("path", "elsewhere"),
    [
        ("/checkpoints/job/chk-7/state", "/moved/chk-7/state"),
        ("/checkpoints/job/chk-7/deep/state", "/moved/chk-7/deep/state"),
        ("/checkpoints/job/shared/1.sst", "/moved/shared/1.sst"),
        ("/checkpoints/job/chk-70/state", "/checkpoints/job/chk-70/state"),
        ("/checkpoints/job/shared-not/1.sst", "/checkpoints/job/shared-not/1.sst"),
        ("/checkpoints/other/shared/1.sst", "/checkpoints/other/shared/1.sst"),
    ],
)
def test_files_of_a_checkpoint_and_those_shared_beside_it_move_with_it(path: str, elsewhere: str) -> None:
    part = StatePart("a", PartKind.KEYED, FileState(path, 1, 2, 3), 1, (0, 1))
    data = encode(completed([operator_state({0: [part]})]), PATH)
    moved = decode(data, "/moved/chk-7", "/moved/chk-7")
    assert moved.directory == "/moved/chk-7"
    assert [file for state in moved.states() for file in state.files()] == [elsewhere]
