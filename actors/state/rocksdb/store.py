"""RocksDB as an ordered map from bytes to bytes: how it is opened, how much memory it takes, and its snapshots.

Nothing is written to a log: after a crash the state comes from a checkpoint, never from the local files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Any

from flinkray.errors import MissingDependencyError

Items = Callable[[bytes, bytes], Iterator[tuple[bytes, bytes]]]
"""`items(first, prefix)` gives the entries whose keys begin with `prefix`, from the key `first` on, in order, as they
are when it is called."""

_BoundedIterator = tuple[Any, Any]
"""An iterator with its options, which must live as long: the iterator only points to the bound that they hold."""

# Deleted entries stay until files are merged, and reading passes over each of them. Where it would pass over more than
# this many of one prefix, the prefix's other keys are remembered from then on, and read one by one.
_MOST_DELETED = 1000
# Prefixes and keys of each that are remembered at most, which takes a few megabytes.
_MOST_CROWDED = 128
_MOST_KEYS = 512


def load_rocksdict() -> Any:
    """Imports the package rocksdict.

    Raises:
        MissingDependencyError: it is not installed.
    """
    try:
        import rocksdict
    except ImportError as error:
        raise MissingDependencyError(
            "state.backend.type is rocksdb, which needs the package rocksdict on every node of the cluster: "
            "pip install 'flinkray[rocksdb]'"
        ) from error
    return rocksdict


class RocksDbStore:
    """A RocksDB in a directory of its own, which is created if it does not exist. Belongs to one thread.

    Args:
        memory_bytes: the size of write buffers and block cache together.
        is_partitioned: whether the files that it writes have partitioned indexes and filters; it reads both kinds.
    """

    def __init__(self, directory: str, memory_bytes: int, is_partitioned: bool = True) -> None:
        self._rocksdict = load_rocksdict()
        self._directory = directory
        os.makedirs(directory, exist_ok=True)
        self._db = self._rocksdict.Rdict(directory, _options(self._rocksdict, memory_bytes, is_partitioned))
        without_log = self._rocksdict.WriteOptions()
        without_log.disable_wal = True
        self._db.set_write_options(without_log)
        self.sequence = 0
        """The last sequence number of a list element."""
        self._compacted_after_ms: int | None = None
        self._crowded: dict[bytes, dict[bytes, None] | None] = {}
        """Prefixes of which many entries were deleted, each with all keys that may exist; None: they are not known
        yet."""
        self.get: Callable[[bytes], bytes | None] = self._db.get
        self.put: Callable[[bytes, bytes], None] = self._db.put
        self.delete: Callable[[bytes], None] = self._db.delete

    def compact_files_after(self, age_ms: int) -> None:
        """Rewrites files once they are that old, which frees the space of what was deleted in them.

        Args:
            age_ms: 0: files are never rewritten for their age alone. Of several calls the shortest age counts.
        """
        ages = [age for age in (self._compacted_after_ms, age_ms) if age]
        shortest = min(ages, default=0)
        if shortest != self._compacted_after_ms:
            self._compacted_after_ms = shortest
            self._db.set_options({"periodic_compaction_seconds": str(-(-shortest // 1000))})

    def next_sequence(self) -> int:
        self.sequence += 1
        return self.sequence

    def items(self, first: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The entries whose keys begin with `prefix`, from the key `first` on, in order, as they are now (an
        `Items`)."""
        return _read(self._iterator(prefix), first)

    def all_of(self, prefix: bytes, stay: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """The entries whose keys begin with `prefix`, those written with `add` in the order in which they were added.

        The time that this takes does not grow with how many other entries have been deleted.

        Args:
            stay: give the entries as they are now, even if they are changed while iterating.
        """
        keys = self._crowded.get(prefix)
        if keys is not None:
            found = [(key, value) for key in keys if (value := self.get(key)) is not None]
            if len(found) < len(keys):
                self._crowded[prefix] = {key: None for key, _ in found}
            return iter(found)
        if prefix not in self._crowded:
            short = self._iterator(prefix, _MOST_DELETED)
            return self._scan(prefix, short, self._iterator(prefix) if stay else None)
        items = self.items(prefix, prefix)
        few = list(islice(items, _MOST_KEYS + 1))
        if len(few) <= _MOST_KEYS:
            self._crowded[prefix] = {key: None for key, _ in few}
        return chain(few, items)

    def add(self, prefix: bytes, key: bytes, value: bytes) -> None:
        """Writes an entry whose key begins with a prefix by which `all_of` reads."""
        self.put(key, value)
        if self._crowded:
            keys = self._crowded.get(prefix)
            if keys is not None:
                keys[key] = None
                if len(keys) > _MOST_KEYS:
                    self._crowded[prefix] = None

    def clear(self, prefix: bytes) -> None:
        """Deletes the entries whose keys begin with `prefix`."""
        for key, _ in self.all_of(prefix):
            self.delete(key)
        if prefix in self._crowded:
            self._crowded[prefix] = {}

    def _scan(
        self, prefix: bytes, short: _BoundedIterator, whole: _BoundedIterator | None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Reads the entries of a prefix, and notes the prefix as crowded where many of them turn out to be deleted.

        Args:
            short: an iterator that ends early, with an error, where many entries in a row were deleted.
            whole: an iterator made at the same time that does not; None: nothing is changed while iterating.
        """
        first = prefix
        try:
            for key, value in _read(short, prefix):
                yield key, value
                first = key + b"\0"
        except Exception as error:
            if "incomplete" not in str(error):
                raise
            if len(self._crowded) >= _MOST_CROWDED:
                self._crowded.clear()
            self._crowded.setdefault(prefix, None)
            yield from _read(whole or self._iterator(prefix), first)

    def _iterator(self, prefix: bytes, most_deleted: int = 0) -> _BoundedIterator:
        """An iterator that ends with the prefix, instead of passing over all that was deleted behind it."""
        options = self._rocksdict.ReadOptions()
        end = _end_of(prefix)
        if end:
            options.set_iterate_upper_bound(end)
        if most_deleted:
            options.set_max_skippable_internal_keys(most_deleted)
        return self._db.iter(options), options

    def frozen(self) -> Items:
        """The entries as they are now. Another thread may read them, one call at a time, even when the store is
        closed."""
        # An iterator sees the entries as they were when it was made; those of rocksdict's Snapshot do not.
        return partial(_seek, self._db.iter())

    def checkpoint(self, directory: str) -> None:
        """Flushes what is in memory, and makes `directory` a copy of the store that shares its files (hard links)."""
        self._rocksdict.Checkpoint(self._db).create_checkpoint(directory)

    def close(self) -> None:
        """Closes the store and deletes its files; what `frozen` has returned can still be read."""
        # A frozen iterator keeps the database open, which would create and delete files while they are deleted here.
        self._db.cancel_all_background(wait=True)
        try:
            self._db.close()
        except Exception as error:  # it is closed, and complains that it could not flush what nobody needs any more
            if "Shutdown in progress" not in str(error):
                raise
        shutil.rmtree(self._directory)


def read_directory(directory: str, memory_bytes: int) -> tuple[Items, Callable[[], None]]:
    """Opens the files of a store for reading: its entries, and a function that closes them."""
    rocksdict = load_rocksdict()
    access = rocksdict.AccessType.read_only()
    db = rocksdict.Rdict(directory, _options(rocksdict, memory_bytes, True), access_type=access)
    return lambda first, prefix: _seek(db.iter(), first, prefix), db.close


def _seek(iterator: Any, first: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    iterator.seek(first)
    while iterator.valid():
        key = iterator.key()
        if not key.startswith(prefix):
            return
        yield key, iterator.value()
        iterator.next()
    iterator.status()  # raises an error that the iterator may have ended with


def _read(bounded: _BoundedIterator, first: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The entries from the key `first` to the bound."""
    iterator, _options = bounded
    iterator.seek(first)
    while iterator.valid():
        yield iterator.key(), iterator.value()
        iterator.next()
    iterator.status()  # raises an error that the iterator may have ended with


def _end_of(prefix: bytes) -> bytes:
    """The first key behind all that begin with the prefix; empty if there is none."""
    last = prefix.rstrip(b"\xff")
    return last[:-1] + bytes([last[-1] + 1]) if last else b""


def _options(rocksdict: Any, memory_bytes: int, is_partitioned: bool) -> Any:
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    # One buffer takes writes while another is flushed; together with the cache they are the whole budget.
    options.set_max_write_buffer_number(2)
    options.set_write_buffer_size(memory_bytes // 4)
    tables = rocksdict.BlockBasedOptions()
    tables.set_block_cache(rocksdict.Cache(memory_bytes // 2))
    tables.set_cache_index_and_filter_blocks(True)
    tables.set_pin_l0_filter_and_index_blocks_in_cache(True)
    tables.set_bloom_filter(10, False)
    if is_partitioned:
        # The cache has up to 64 shards, and what is larger than a shard is read and checked again at each access: so is
        # the whole filter of a file with some hundred thousand keys.
        tables.set_index_type(rocksdict.BlockBasedIndexType.two_level_index_search())
        tables.set_partition_filters(True)
        tables.set_pin_top_level_index_and_filter(True)
    options.set_block_based_table_factory(tables)
    options.set_compression_type(rocksdict.DBCompressionType.lz4())
    # Compaction by levels would rewrite, and so upload again, nearly all files at every fourth checkpoint, as keys
    # change everywhere. Universal compaction merges small files with each other, and with the large ones once they are
    # as large together.
    options.set_compaction_style(rocksdict.DBCompactionStyle.universal())
    universal = rocksdict.UniversalCompactOptions()
    universal.max_size_amplification_percent = 100
    options.set_universal_compaction_options(universal)
    options.set_keep_log_file_num(1)
    options.set_paranoid_checks(True)
    return options
