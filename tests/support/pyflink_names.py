"""Every public name of PyFlink's `common`, `datastream`, `metrics` and `table`, with its arguments, beside what is here
under that name, and the public names that each module imports of others.

`python -m tests.support.pyflink_names record WHEEL` makes the list anew, from the sources in PyFlink's wheel, which are
read and not run.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import zipfile
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from flinkray.errors import InvalidProgramError
from flinkray.tables.api.expression import Expression, lit

NAMES = Path(__file__).resolve().parent.parent / "pyflink" / "names.txt"
_PARTS = ("pyflink/common/", "pyflink/datastream/", "pyflink/metrics/", "pyflink/table/")
_OF_WORKERS = ("pyflink/table/functions.py", "pyflink/table/serializers.py", "pyflink/table/utils.py")
"""What PyFlink's own workers are made of, which no program imports."""


def names_in_wheel(wheel: Path) -> list[str]:
    """Lines such as `common.time: Duration.of_days(days)`, sorted."""
    modules: dict[str, ast.Module] = {}
    with zipfile.ZipFile(wheel) as archive:
        for path in archive.namelist():
            if path.startswith(_PARTS) and path.endswith(".py") and path not in _OF_WORKERS:
                module = path.removeprefix("pyflink/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
                modules[module] = ast.parse(archive.read(path))
    public = {name for tree in modules.values() for name in _exported(tree)}
    return sorted(
        {
            f"{module}: {name}"
            for module, tree in modules.items()
            for name in (*_names_in(tree), *_imported(tree, public))
        }
    )


def _exported(module: ast.Module) -> Iterator[str]:
    for statement in module.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            yield from ast.literal_eval(statement.value)


def _imported(module: ast.Module, public: Collection[str]) -> Iterator[str]:
    """What a module imports of PyFlink's public names, also where it is called: programs import it from there."""
    for statement in module.body:
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("pyflink."):
            yield from (each.name for each in statement.names if each.name in public and each.asname is None)


def _names_in(module: ast.Module) -> Iterator[str]:
    yield from _exported(module)
    yield from _members(module.body, "")


def _members(body: Iterable[ast.stmt], prefix: str) -> Iterator[str]:
    for each in body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and (
            not each.name.startswith("_") or each.name == "__init__"
        ):
            yield f"{prefix}{each.name}({', '.join(_arguments(each, bool(prefix)))})"
        elif isinstance(each, ast.ClassDef) and not each.name.startswith("_"):
            yield f"{prefix}{each.name}"
            yield from _members(each.body, f"{prefix}{each.name}.")
        elif isinstance(each, ast.Assign | ast.AnnAssign) and prefix:
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            for target in targets:
                if isinstance(target, ast.Name) and not target.id.startswith("_"):
                    yield f"{prefix}{target.id}"


def _arguments(function: ast.FunctionDef | ast.AsyncFunctionDef, is_method: bool) -> list[str]:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    required = len(positional) - len(arguments.defaults)
    texts = [each.arg + ("" if position < required else "=") for position, each in enumerate(positional)]
    is_static = any(ast.unparse(each) == "staticmethod" for each in function.decorator_list)
    if is_method and not is_static:
        texts = texts[1:]
    if arguments.vararg is not None:
        texts.append(f"*{arguments.vararg.arg}")
    texts += [each.arg + "=" for each in arguments.kwonlyargs]
    if arguments.kwarg is not None:
        texts.append(f"**{arguments.kwarg.arg}")
    return texts


def difference(line: str) -> str | None:
    """What of a line of the list is not so here; None: the name is here and takes its arguments, or its import fails
    with the sentence that says what to use."""
    module, _, rest = line.partition(": ")
    name, _, arguments = rest.removesuffix(")").partition("(")
    try:
        found: Any = importlib.import_module(f"flinkray.pyflink.{module}")
    except ModuleNotFoundError:
        return "no such module"
    for part in name.split("."):
        try:
            found = getattr(lit(1), part) if found is Expression else getattr(found, part)
        except InvalidProgramError:
            return None
        except AttributeError:
            return f"no {part}"
    return None if "(" not in rest else _difference_of_arguments(found, arguments)


def difference_of_method(implementing: type, method: str) -> str | None:
    """As `difference`, of a method such as `get_state(state_descriptor)` of a class that programs get objects of."""
    name, _, arguments = method.removesuffix(")").partition("(")
    found = getattr(implementing, name, None)
    return f"no {name}" if found is None else _difference_of_arguments(found, arguments)


def _difference_of_arguments(found: Any, arguments: str) -> str | None:
    theirs = [each for each in arguments.split(", ") if each]
    if isinstance(found, Expression):
        return None  # what takes no argument, and needs no parentheses
    try:
        ours = list(inspect.signature(found).parameters.values())
    except (TypeError, ValueError):
        return None  # of a class in C
    if ours and ours[0].name == "self":
        ours = ours[1:]
    by_name = {each.name: each for each in ours}
    kinds = {each.kind for each in ours}
    for position, text in enumerate(theirs):
        name = text.strip("*=")
        if text.startswith("*"):
            wanted = inspect.Parameter.VAR_KEYWORD if text.startswith("**") else inspect.Parameter.VAR_POSITIONAL
            if wanted not in kinds:
                return f"no {text}"
        elif name in by_name:
            place = [each.name for each in ours].index(name)
            if place != position and by_name[name].kind is not inspect.Parameter.KEYWORD_ONLY:
                return f"{name} is argument {place}, not {position}"
            if text.endswith("=") and by_name[name].default is inspect.Parameter.empty:
                return f"{name} is required"
        elif not {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL} <= kinds:
            return f"no argument {name}"
    needed = [
        each.name
        for each in ours[len(theirs) :]
        if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD
    ]
    return f"{needed[0]} is required" if needed else None


if __name__ == "__main__" and sys.argv[1:2] == ["record"]:
    NAMES.write_text("".join(f"{line}\n" for line in names_in_wheel(Path(sys.argv[2]))), encoding="utf-8")
