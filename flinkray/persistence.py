"""Names of our classes in what outlives a process: checkpoints, savepoints, and the store of a cluster's jobs.

All of these hold pickles, and a pickle names a class by its module, so that it would not find one that was moved. Ours
are therefore written by a registered name and a version of their format: `named("flinkray/FileSplit@1")`. One table per
package, `persistent_names` of `flinkray`, `graphs` and `actors`, says where each is now; it is text, so that a process
imports only what it reads. What users import from `flinkray` needs no line there: that name is its name here.
Classes of the user's are pickled as always, by the user's modules.

When a format changes, "FileSplit@2" is the class, and "FileSplit@1" a function that takes what the first version was
pickled with, and gives an object of today's class. What was pickled by module, before there were names, is looked up by
its class's name once the module does not have it any more.

This module alone has its path in pickles, so it, `named` and the names of the packages must stay. `loads` runs what it
reads, as all unpickling does: its bytes must come from where only the job's own processes write.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import FunctionType
from typing import IO, TYPE_CHECKING, Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

PROTOCOL = 5
_PACKAGES = frozenset({"flinkray", "graphs", "actors"})
_TABLES = "persistent_names"
# As in PyFlink, whose modules these are under another name: users import from each of them.
_MIRROR = "flinkray.pyflink."


class UnknownNameError(pickle.UnpicklingError):
    """What is read holds something that this version does not know; the message says what, and what to do."""


class UnnamedClassWarning(UserWarning):
    """Something of ours without a name is in what outlives this version, and will be lost when it is moved."""


@cache
def named(name: str) -> Any:
    """The class, or the function that makes one, that has this name now.

    Raises:
        UnknownNameError: there is none; says whether there are other versions.
    """
    package, _, key = name.partition("/")
    target = _table(package).get(key) if package in _PACKAGES else None
    if target is not None:
        return _loaded(*target.split(":"))
    qualname, _, version = key.partition("@")
    if package == "flinkray" and version == "1" and (public := _public(qualname)) is not None:
        return public
    known = [each for each in _table(package) if each.startswith(f"{qualname}@")] if package in _PACKAGES else []
    which = f"; it knows {' and '.join(known)}" if known else ""
    raise UnknownNameError(
        f"it holds {name!r}, which this version of flinkray does not know{which}: it was written by a newer version, "
        "which is needed to read it"
    )


def known_as(name: str) -> Callable[[_Function], _Function]:
    """Has a function bear its name itself, as one of this module: any pickler then writes it, in less time and space
    than a call of `named` takes."""

    def rename(function: _Function) -> _Function:
        function.__module__, function.__qualname__ = __name__, name
        return function

    return rename


if not TYPE_CHECKING:  # to mypy, this module would have every attribute

    def __getattr__(name: str) -> Any:
        if "/" not in name:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = named(name)
        return value


def reduced(value: Any, may_have_paths: bool = False) -> Any:
    """What `reducer_override` of a pickler gives for a value: NotImplemented unless it is a class or function of ours
    that has a name.

    Args:
        may_have_paths: the module of one without a name may be written without a warning, as in the user's code, which
            imports from wherever it likes.
    """
    if not isinstance(value, type | FunctionType):
        return NotImplemented
    module = value.__module__
    if not isinstance(module, str) or module.partition(".")[0] not in _PACKAGES or module == __name__:
        return NotImplemented
    name = _name_of(module, value.__qualname__)
    if name is not None and named(name) is value:
        return named, (name,)
    if not may_have_paths and not module.startswith(_MIRROR):
        warnings.warn(
            f"{module}.{value.__qualname__} is kept in a checkpoint, and has no name that later versions of flinkray "
            "know it by: keep what is in it instead, as values of your own classes or of Python's",
            UnnamedClassWarning,
            stacklevel=2,
        )
    return NotImplemented


class Pickler(pickle.Pickler):
    """Writes names. For what plain pickle takes; see `flinkray.batches.pickling` for the rest."""

    def __init__(self, stream: IO[bytes], may_have_paths: bool = False) -> None:
        super().__init__(stream, PROTOCOL)
        self._may_have_paths = may_have_paths

    def reducer_override(self, value: Any) -> Any:
        return reduced(value, self._may_have_paths)


def dumps(value: Any, may_have_paths: bool = False) -> bytes:
    """Pickles a value by names, as `Pickler`."""
    stream = io.BytesIO()
    Pickler(stream, may_have_paths).dump(value)
    return stream.getvalue()


def loads(data: bytes) -> Any:
    """What was pickled, by names or, before there were any, by paths.

    Raises:
        UnknownNameError: it is of a version that this one does not know.
    """
    try:
        return pickle.loads(data)
    except (ImportError, AttributeError):
        return Unpickler(io.BytesIO(data)).load()


def load(stream: IO[bytes]) -> Any:
    """As `loads`, of what comes next in a stream that can be read again."""
    start = stream.tell()
    try:
        return pickle.load(stream)
    except (ImportError, AttributeError):
        stream.seek(start)
        return Unpickler(stream).load()


def has_paths(pickled: bytes) -> bool:
    """Whether there are modules of ours in it, or what looks as if there were."""
    count = pickled.count  # takes half the time of `in`, which first tries whether it was given a number
    return bool(count(b"flinkray.") > count(b"flinkray.persistence") or count(b"actors.") or count(b"graphs."))


def has_modules(pickled: bytes) -> bool:
    """As `has_paths`, and slower, but not for what only holds such a name within another, as modules of the user's may
    be called."""
    if not has_paths(pickled):
        return False
    texts = (text for _, text, _ in pickletools.genops(pickled) if isinstance(text, str))
    return any(text.partition(".")[0] in _PACKAGES and "." in text and text != __name__ for text in texts)


class Unpickler(pickle.Unpickler):
    """Reads what `loads` reads."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] not in _PACKAGES:
            return super().find_class(module, name)
        try:
            return super().find_class(module, name)
        except (ImportError, AttributeError):
            return _former(module, name)


def _former(module: str, qualname: str) -> Any:
    """What was in that module before there were names."""
    package = module.partition(".")[0]
    tables = import_module(f"{package}.{_TABLES}")
    name = tables.FORMER.get(f"{module}:{qualname}", f"{qualname}@1")
    try:
        return named(f"{package}/{name}")
    except UnknownNameError:
        raise UnknownNameError(
            f"it holds {module}.{qualname}, which this version of flinkray does not have: it was written by another "
            "version, which is needed to read it"
        ) from None


@cache
def _name_of(module: str, qualname: str) -> str | None:
    package = module.partition(".")[0]
    name = _names(package).get(f"{module}:{qualname}")
    if name is None and package == "flinkray" and _public(qualname) is not None:
        name = f"{qualname}@1"
    return None if name is None else f"{package}/{name}"


@cache
def _names(package: str) -> dict[str, str]:
    """By what they stand for. Of a class only the latest version is it."""
    return {target: name for name, target in _table(package).items()}


def _table(package: str) -> dict[str, str]:
    table: dict[str, str] = import_module(f"{package}.{_TABLES}").NAMES
    return table


def _public(qualname: str) -> Any:
    """What users import from `flinkray` by that name; None: nothing."""
    public = import_module("flinkray")
    first, *rest = qualname.split(".")
    if first not in public.__all__:
        return None
    value = getattr(public, first)
    for part in rest:
        value = getattr(value, part, None)
    return value


def _loaded(module: str, qualname: str) -> Any:
    value: Any = import_module(module)
    for part in qualname.split("."):
        value = getattr(value, part)
    return value
