"""Who imports whom in a tree of packages, read from the source without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path


@cache
def read_module(path: Path) -> tuple[str, tuple[ast.Import | ast.ImportFrom, ...]]:
    """The docstring of a module, and each of its imports, wherever in it they stand. A file is read once."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports = tuple(node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return ast.get_docstring(tree) or "", imports


@cache
def modules_of(root: Path, *packages: str) -> frozenset[str]:
    """The dotted names of all modules of the packages below `root`; a package's own is that of its `__init__`."""
    paths = (path.relative_to(root) for package in packages for path in (root / package).rglob("*.py"))
    return frozenset(".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths)


@cache
def imported_modules(root: Path, module: str) -> tuple[tuple[int, str], ...]:
    """Line and name of each module of the same tree that a module imports, wherever in it the import stands."""
    return tuple(_imports(root, module))


def _imports(root: Path, module: str) -> Iterator[tuple[int, str]]:
    path = _path_of(root, module)
    assert path is not None, module
    for node in read_module(path)[1]:
        if isinstance(node, ast.Import):
            names = [(alias.name, "") for alias in node.names]
        elif node.module is not None:
            names = [(f"{node.module}.{alias.name}", node.module) for alias in node.names]
        else:
            continue
        for name, parent in names:
            # `from a.b import c` imports the module a.b.c where there is one, else a name of the module a.b.
            found = next((each for each in (name, parent) if each and _path_of(root, each) is not None), None)
            if found is not None:
                yield node.lineno, found


@cache
def _path_of(root: Path, module: str) -> Path | None:
    base = root.joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.exists()), None)


def circles(root: Path, *packages: str) -> Iterator[frozenset[str]]:
    """The sets of modules that import each other, directly or by way of others (strongly connected components)."""
    imports = {
        module: {name for _, name in imported_modules(root, module)} - {module, *packages}
        for module in modules_of(root, *packages)
    }
    # What imports nothing that is left is in no circle.
    while done := [module for module, names in imports.items() if not names & imports.keys()]:
        for module in done:
            del imports[module]
    reached = {module: _reached_from(module, imports) for module in imports}
    told: set[str] = set()
    for module in sorted(imports):
        circle = frozenset(other for other in reached[module] if module in reached[other])
        if circle and module not in told:
            told |= circle
            yield circle


def _reached_from(module: str, imports: dict[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = [module]
    while waiting:
        new = (imports[waiting.pop()] & imports.keys()) - reached
        reached |= new
        waiting.extend(new)
    return reached
