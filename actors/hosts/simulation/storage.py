"""A file system in memory for simulations, in which writes fail, files are torn, and writers die in the middle."""

from __future__ import annotations

import io
import posixpath
from collections.abc import Callable
from typing import Any, NoReturn

from pyarrow import BufferReader, PythonFile, fs

from actors.hosts.simulation.host import SimulationHost
from actors.hosts.simulation.process import ProcessEnded, SimulatedProcess

_storages: dict[str, SimulatedStorage] = {}


def storage_named(name: str) -> SimulatedStorage:
    """The storage of that name, one for the whole process, so that a pickled storage finds its files again."""
    if name not in _storages:
        _storages[name] = SimulatedStorage(name)
    return _storages[name]


def new_storage(name: str) -> SimulatedStorage:
    """An empty storage, in place of the one that had this name."""
    _storages.pop(name, None)
    return storage_named(name)


class SimulatedStorage(fs.FileSystemHandler):  # type: ignore[misc]
    """Behaves as a local file system: what is written can be seen before the file is closed, and a move replaces.

    Operations of a simulated process fail as the host's `StorageFaults` say, once `attach` has named the host; those
    of the test itself never do. Once a file has been closed without an error, its content is safe.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.files: dict[str, bytes] = {}
        self.directories: set[str] = {""}
        self._host: SimulationHost | None = None

    def attach(self, host: SimulationHost | None) -> None:
        """Names the host whose processes use the storage from now on."""
        self._host = host

    def filesystem(self) -> fs.PyFileSystem:
        return fs.PyFileSystem(self)

    def __reduce__(self) -> tuple[Callable[[str], SimulatedStorage], tuple[str]]:
        return storage_named, (self.name,)

    # -- FileSystemHandler: looking ------------------------------------------------------------------------------

    def get_type_name(self) -> str:
        return "memory"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SimulatedStorage) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def normalize_path(self, path: str) -> str:
        normal = posixpath.normpath(path).strip("/")
        return "" if normal == "." else normal

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        self._delay()
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        self._delay()
        base = self.normalize_path(selector.base_dir)
        if base not in self.directories:
            if selector.allow_not_found:
                return []
            raise FileNotFoundError(selector.base_dir)
        below = (path for path in (*self.files, *self.directories) if path and _is_below(path, base))
        found = sorted(path for path in below if selector.recursive or posixpath.dirname(path) == base)
        return [self._info(path) for path in found]

    def open_input_stream(self, path: str) -> Any:
        return self._open(path)

    def open_input_file(self, path: str) -> Any:
        return self._open(path)

    # -- FileSystemHandler: changing -----------------------------------------------------------------------------

    def create_dir(self, path: str, recursive: bool) -> None:
        normal = self.normalize_path(path)

        def create() -> None:
            self._make_directories(normal)

        self._change("create_dir", path, create)

    def delete_dir(self, path: str) -> None:
        self._change("delete_dir", path, lambda: self._delete_below(path, keeps_itself=False))

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        if self.normalize_path(path) not in self.directories and missing_dir_ok:
            return
        self._change("delete_dir_contents", path, lambda: self._delete_below(path, keeps_itself=True))

    def delete_root_dir_contents(self) -> None:
        self._change("delete_dir_contents", "", lambda: self._delete_below("", keeps_itself=True))

    def delete_file(self, path: str) -> None:
        normal = self.normalize_path(path)

        def delete() -> None:
            if normal not in self.files:
                raise FileNotFoundError(path)
            del self.files[normal]

        self._change("delete_file", path, delete)

    def move(self, src: str, dest: str) -> None:
        source, target = self.normalize_path(src), self.normalize_path(dest)

        def move() -> None:
            if source in self.files:
                self._make_room_for(target)
                self.files[target] = self.files.pop(source)
            elif source in self.directories:
                self._move_directory(source, target)
            else:
                raise FileNotFoundError(src)

        self._change("move", src, move)

    def copy_file(self, src: str, dest: str) -> None:
        source, target = self.normalize_path(src), self.normalize_path(dest)

        def copy() -> None:
            if source not in self.files:
                raise FileNotFoundError(src)
            self._make_room_for(target)
            self.files[target] = self.files[source]

        self._change("copy_file", src, copy)

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        return self._open_for_writing(path, b"")

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        return self._open_for_writing(path, self.files.get(self.normalize_path(path), b""))

    # -- for files that are being written ------------------------------------------------------------------------

    def put(self, path: str, content: bytes, writer: SimulatedProcess | None) -> None:
        """Replaces the content of a file that is being written, unless its writer has ended."""
        if writer is None or writer.is_alive:
            self.files[path] = content

    def close(self, path: str, content: bytes, writer: SimulatedProcess | None) -> None:
        """Stores the content of a file that was written; this is where faults of writing happen."""
        if writer is not None and not writer.is_alive:
            return

        def store() -> None:
            self.files[path] = content

        host = self._faulty_host()
        if host is not None and host.plan.happens(host.plan.faults.storage.tears):
            self.files[path] = content[: int(len(content) * host.plan.fraction())]
            host.plan.note(f"{path} is torn")
            raise OSError(f"{path}: only a part of it could be written (a fault of the simulation)")
        self._change("close", path, store)

    @property
    def acting(self) -> SimulatedProcess | None:
        """The simulated process that calls; None: the test does."""
        return None if self._host is None else self._host.acting

    # -- inside: faults ------------------------------------------------------------------------------------------

    def _faulty_host(self) -> SimulationHost | None:
        """The host, if one of its processes calls.

        Raises:
            ProcessEnded: the process has ended, and must not change anything.
        """
        acting = self.acting
        if acting is not None and not acting.is_alive:
            raise ProcessEnded(str(acting))
        return None if acting is None else self._host

    def _delay(self) -> None:
        host = self._faulty_host()
        if host is not None and host.plan.happens(host.plan.faults.storage.slow):
            host.take_longer(host.plan.faults.storage.slow_ms * host.plan.fraction())

    def _change(self, operation: str, path: str, change: Callable[[], None]) -> None:
        """Makes a change, unless a fault happens: an error before or after it, or the caller's death."""
        host = self._faulty_host()
        if host is None:
            change()
            return
        self._delay()
        plan, faults = host.plan, host.plan.faults.storage
        if plan.happens(faults.fails):
            plan.note(f"{operation} of {path} fails")
            self._fail(operation, path)
        if plan.happens(faults.lies):
            plan.note(f"{operation} of {path} is done, and fails")
            change()
            self._fail(operation, path)
        if plan.happens(faults.crashes):
            acting = host.acting
            plan.note(f"{acting} dies in {operation} of {path}")
            if plan.fraction() < 0.5:
                change()
            host.die_in_the_middle(f"killed in {operation} of {path}")
        change()

    @staticmethod
    def _fail(operation: str, path: str) -> NoReturn:
        raise OSError(f"{operation} of {path} failed (a fault of the simulation)")

    # -- inside: files -------------------------------------------------------------------------------------------

    def _info(self, path: str) -> fs.FileInfo:
        normal = self.normalize_path(path)
        if normal in self.files:
            return fs.FileInfo(path, type=fs.FileType.File, size=len(self.files[normal]))
        kind = fs.FileType.Directory if normal in self.directories else fs.FileType.NotFound
        return fs.FileInfo(path, type=kind)

    def _open(self, path: str) -> Any:
        self._delay()
        host = self._faulty_host()
        if host is not None and host.plan.happens(host.plan.faults.storage.fails):
            host.plan.note(f"open of {path} fails")
            self._fail("open", path)
        normal = self.normalize_path(path)
        if normal not in self.files:
            raise FileNotFoundError(path)
        return BufferReader(self.files[normal])

    def _open_for_writing(self, path: str, content: bytes) -> Any:
        normal = self.normalize_path(path)

        def create() -> None:
            self._make_room_for(normal)
            self.files[normal] = content

        self._change("open_output_stream", path, create)
        return PythonFile(_FileInMemory(self, normal, content), mode="w")

    def _make_room_for(self, path: str) -> None:
        if posixpath.dirname(path) not in self.directories:
            raise FileNotFoundError(f"there is no directory for {path}")
        if path in self.directories:
            raise IsADirectoryError(path)

    def _make_directories(self, path: str) -> None:
        missing = []
        while path not in self.directories:
            if path in self.files:
                raise NotADirectoryError(path)
            missing.append(path)
            path = posixpath.dirname(path)
        self.directories.update(missing)

    def _delete_below(self, path: str, *, keeps_itself: bool) -> None:
        normal = self.normalize_path(path)
        if normal not in self.directories:
            raise FileNotFoundError(path)
        for each in [file for file in self.files if _is_below(file, normal)]:
            del self.files[each]
        self.directories -= {each for each in self.directories if each and _is_below(each, normal)}
        if normal and not keeps_itself:
            self.directories.discard(normal)

    def _move_directory(self, source: str, target: str) -> None:
        if target in self.directories or target in self.files:
            raise FileExistsError(target)
        self._make_directories(target)
        for each in [file for file in self.files if _is_below(file, source)]:
            self.files[target + each[len(source) :]] = self.files.pop(each)
        for each in [directory for directory in self.directories if _is_below(directory, source)]:
            self.directories.add(target + each[len(source) :])
            self.directories.discard(each)
        self.directories.discard(source)


def _is_below(path: str, directory: str) -> bool:
    return not directory or path.startswith(f"{directory}/")


class _FileInMemory(io.RawIOBase):
    """A file that is being written."""

    def __init__(self, storage: SimulatedStorage, path: str, content: bytes) -> None:
        super().__init__()
        self._storage = storage
        self._path = path
        self._content = bytearray(content)
        self._writer = storage.acting

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._content += data
        return len(data)

    def tell(self) -> int:
        return len(self._content)

    def flush(self) -> None:
        if not self.closed:
            self._storage.put(self._path, bytes(self._content), self._writer)

    def close(self) -> None:
        if self.closed:
            return
        super().close()  # flushes
        self._storage.close(self._path, bytes(self._content), self._writer)
