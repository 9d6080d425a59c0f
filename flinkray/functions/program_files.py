"""The modules and archives that go along with a program (`python.files`, `python.archives`), packed in the driver."""

from __future__ import annotations

import io
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from flinkray.config.configuration import Configuration
from flinkray.config.python_options import PYTHON_ARCHIVES, PYTHON_FILES
from flinkray.errors import InvalidProgramError
from flinkray.filesystems import is_uri
from flinkray.functions.cached_files import pack

MODULES = "python.files/"
"""How the names of files begin whose content is to be found by `import`. They sort in the order of the option."""
ARCHIVES = "python.archives/"
"""How the names of archives begin; the rest is the name of the directory that they are unpacked into."""

MAX_PACKED_BYTES = 500 << 20
"""More than this is a directory of data that was named by mistake; it is Ray's limit for a working directory too."""

_ZIPPED = (".zip", ".whl", ".egg")
_ARCHIVED = (".zip", ".jar", ".tar", ".tar.gz", ".tgz")
_LEFT_OUT = frozenset({"__pycache__", ".git", ".hg", ".venv", ".mypy_cache", ".pytest_cache", ".ruff_cache"})
_TAKEN_NAMES = (sys.stdlib_module_names | {"flinkray", "actors", "graphs", "ray", "pyarrow", "msgspec"}) - {"test"}


def pack_program_files(configuration: Configuration) -> dict[str, bytes]:
    """The files that the options name, as `flinkray.functions.cached_files.pack` packs them; names begin with MODULES
    or ARCHIVES.

    Raises:
        InvalidProgramError: one is missing or of no known kind, brings a module that is there already, or all of them
            are too large; says which and what to do.
    """
    packed: dict[str, bytes] = {}
    owners: dict[str, str] = {}
    for number, file in enumerate(named_files(configuration.get(PYTHON_FILES))):
        content = _pack_modules(_existing(PYTHON_FILES.key, file))
        for module in _modules_in(content):
            _refuse_taken(module, file, owners)
        packed[f"{MODULES}{number:03d}-{Path(file).name}"] = content
    for each in named_files(configuration.get(PYTHON_ARCHIVES)):
        file, _, target = each.partition("#")
        target = target or Path(file).name
        if f"{ARCHIVES}{target}" in packed or target in (".", "..") or "/" in target:
            raise InvalidProgramError(
                f"option {PYTHON_ARCHIVES.key}: {each!r} is to be unpacked into {target!r}, which must be one name, "
                f"and of one archive only: {file}#another_name"
            )
        packed[f"{ARCHIVES}{target}"] = _pack_archive(_existing(PYTHON_ARCHIVES.key, file), target)
    _refuse_large(packed)
    return packed


def modules_among(packed: dict[str, bytes]) -> dict[str, bytes]:
    """Those of packed files that are to be found by `import`, which is all that a JobMaster needs."""
    return {name: content for name, content in packed.items() if name.startswith(MODULES)}


def named_files(value: str) -> list[str]:
    """The files of an option's value, which stand with commas between them."""
    return list(dict.fromkeys(filter(None, map(str.strip, value.split(",")))))


def place_of(file: str | Path) -> str:
    """What has to be on `sys.path` of the driver, so that what the file brings is found there.

    Raises:
        InvalidProgramError: there is no such file.
    """
    path = _existing(PYTHON_FILES.key, str(file))
    return str(path if path.suffix in _ZIPPED or _is_directory_of_modules(path) else path.parent)


def _existing(option: str, file: str) -> Path:
    if is_uri(file):
        raise InvalidProgramError(f"option {option}: {file} is not a file of this machine; copy it here, and name that")
    path = Path(file).expanduser().absolute()
    if not path.exists():
        raise InvalidProgramError(f"option {option}: there is no {path}; paths are taken from {Path.cwd()}")
    return path


def _is_directory_of_modules(path: Path) -> bool:
    return path.is_dir() and not (path / "__init__.py").exists()


def _pack_modules(path: Path) -> bytes:
    """What `path` brings, packed so that the directory it is unpacked into belongs on `sys.path`."""
    if path.suffix in _ZIPPED and path.is_file():
        return _repacked(path)
    if _is_directory_of_modules(path):
        return _tar(sorted(path.iterdir()))
    if path.is_dir() or path.suffix == ".py":
        return _tar([path])
    raise InvalidProgramError(
        f"option {PYTHON_FILES.key}: {path} is no module, package, directory of these, .zip, .whl or .egg; data goes "
        f"along as an archive ({PYTHON_ARCHIVES.key}) or with env.register_cached_file"
    )


def _tar(paths: list[Path]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", dereference=True) as archive:
        for path in paths:
            archive.add(path, path.name, filter=_without_left_out)
            if packed.tell() > MAX_PACKED_BYTES:
                break  # what is refused need not be read to its end
    return packed.getvalue()


def _without_left_out(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if Path(entry.name).name in _LEFT_OUT else entry


def _pack_archive(path: Path, target: str) -> bytes:
    if not path.name.endswith(_ARCHIVED) or not path.is_file():
        raise InvalidProgramError(
            f"option {PYTHON_ARCHIVES.key}: {path} is none of {', '.join(_ARCHIVED)}; single files and directories go "
            "along with env.register_cached_file"
        )
    with tempfile.TemporaryDirectory(prefix="flinkray-") as directory:
        root = Path(directory) / target
        root.mkdir()
        _unpack_archive(path, root)
        return pack(root)


def _repacked(path: Path) -> bytes:
    with tempfile.TemporaryDirectory(prefix="flinkray-") as directory:
        _unpack_archive(path, Path(directory))
        return _tar(sorted(Path(directory).iterdir()))


def _unpack_archive(path: Path, directory: Path) -> None:
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as zipped:
                for entry in zipped.infolist():
                    place = Path(zipped.extract(entry, directory))
                    if place.is_file() and (mode := entry.external_attr >> 16 & 0o777):
                        place.chmod(mode)  # zipfile leaves scripts without the right to run them
        else:
            with tarfile.open(path) as archive:
                archive.extractall(directory, filter="data")
    except (tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        raise InvalidProgramError(f"{path} cannot be unpacked ({error}): pack it again") from error


def _modules_in(content: bytes) -> Iterator[str]:
    """The modules and packages that are found in the directory it is unpacked into."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for name in archive.getnames():
            first, _, rest = name.partition("/")
            if not rest and first.endswith(".py"):
                yield first.removesuffix(".py")
            elif rest == "__init__.py":
                yield first


def _refuse_taken(module: str, file: str, owners: dict[str, str]) -> None:
    owner = owners.setdefault(module, file)
    if owner != file:
        raise InvalidProgramError(
            f"option {PYTHON_FILES.key}: {owner} and {file} both bring a module {module!r}, of which only the first "
            "would be found: rename one, or put both into packages"
        )
    if module in _TAKEN_NAMES:
        raise InvalidProgramError(
            f"option {PYTHON_FILES.key}: {file} brings a module {module!r}, which would take the place of one that "
            "Python or flinkray has: rename it, or put it into a package"
        )


def _refuse_large(packed: dict[str, bytes]) -> None:
    size = sum(map(len, packed.values()))
    if size > MAX_PACKED_BYTES:
        name, largest = max(packed.items(), key=lambda each: len(each[1]))
        raise InvalidProgramError(
            f"the program's files take more than {MAX_PACKED_BYTES >> 20} MiB, {name} at least {len(largest) >> 20}: "
            "leave out what is no code, and put large data where every node reaches it"
        )
