"""Functions of the user's, as what expressions call: `udf`, `udtf` and `udaf`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, get_type_hints

from flinkray.errors import InvalidProgramError
from flinkray.tables.api.data_types import DataTypes, logical_type
from flinkray.tables.api.expression import Expression, as_expression, col
from flinkray.tables.catalog import UserFunction
from flinkray.tables.syntax import expressions as syntax
from flinkray.tables.syntax.names import Name, Path
from flinkray.tables.types.logical import LogicalType, RowType
from flinkray.tables.user_functions import (
    ARROW,
    FUNCTION_KINDS,
    GENERAL,
    AggregateFunction,
    EmittedRows,
    Implementation,
    TableAggregateFunction,
)

P = ParamSpec("P")

UNNAMED = "function "
"""What the name of a function in an expression begins with until the environment gives it one."""


class UserDefinedFunctionWrapper:
    """A function of the user's with its types. Calling it gives an expression."""

    def __init__(
        self,
        function: Any,
        name: str,
        result: LogicalType,
        parameters: tuple[LogicalType, ...] | None,
        kind: str,
        func_type: str = GENERAL,
        is_deterministic: bool = True,
        row_names: tuple[str, ...] | None = None,
    ) -> None:
        self._function = function
        self._name = name
        self._result = result
        self._parameters = parameters
        self._kind = kind
        self._func_type = func_type
        self._is_deterministic = is_deterministic
        self._row_names = row_names
        if callable(function) and not isinstance(function, AggregateFunction) and not hasattr(function, "eval"):
            functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Expression:
        given = [as_expression(each) for each in arguments]
        functions = dict.fromkeys([self, *(function for each in given for function in each._functions)])
        name = Path((Name(f"{UNNAMED}{id(self)}"),))
        return Expression(syntax.Call(name, tuple(each._node for each in given)), (), tuple(functions))

    def alias(self, *names: str) -> RowCall:
        """A call with the whole row, whose result has these names."""
        return RowCall(self, names)

    def of_rows(self, columns: Sequence[str]) -> Expression:
        """A call with the whole row of a table that has these columns."""
        wrapper = UserDefinedFunctionWrapper(
            self._function,
            self._name,
            self._result,
            None,
            self._kind,
            self._func_type,
            self._is_deterministic,
            tuple(columns),
        )
        return wrapper(*map(col, columns))

    def described(self, name: str) -> UserFunction:
        """The function under a name, as a catalog has it."""
        implementation = Implementation(self._name, self._function, self._func_type, self._row_names)
        return UserFunction(name, self._result, self._parameters, self._kind, self._is_deterministic, implementation)

    @property
    def name(self) -> str:
        """The function's own name."""
        return self._name


class RowCall:
    """A call with the whole row, with names for the columns of its result."""

    def __init__(self, function: UserDefinedFunctionWrapper, names: tuple[str, ...]) -> None:
        self._function = function
        self._names = names

    def of_rows(self, columns: Sequence[str]) -> Expression:
        """The call for a table that has these columns."""
        return self._function.of_rows(columns).alias(*self._names)


def _also_a_decorator(make: Callable[P, Any]) -> Callable[P, Any]:
    """What makes a function of `f`; called without, as a decorator is, it waits for it."""
    signature = inspect.signature(make)

    @functools.wraps(make)
    def either(*arguments: P.args, **by_name: P.kwargs) -> Any:
        given = signature.bind(*arguments, **by_name).arguments
        if given.pop("f", None) is None:
            return functools.partial(either, **given)
        return make(*arguments, **by_name)

    return either


@_also_a_decorator
def udf(
    f: Any = None,
    input_types: Any = None,
    result_type: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = GENERAL,
    udf_type: str | None = None,
) -> Any:
    """A function that gives a value for each row; also as a decorator.

    Args:
        f: a function, or a ScalarFunction.
        input_types: the types that arguments are cast to; None: any.
        result_type: by custom the annotation of what it returns.
        func_type: "general" is called for each row, "pandas" with a Series for each argument, "arrow" with arrays.
    """
    kind = udf_type or func_type
    if kind not in FUNCTION_KINDS:
        raise InvalidProgramError(f"udf(func_type=...) is one of {', '.join(FUNCTION_KINDS)}, not {kind!r}")
    if kind != GENERAL and inspect.iscoroutinefunction(getattr(f, "eval", f)):
        raise InvalidProgramError(f"{own_name(f)} is a coroutine function: these have no func_type={kind!r}")
    result = _result(f, result_type, "udf")
    return _wrapper(f, name, result, input_types, "scalar", kind, deterministic)


@_also_a_decorator
def udtf(
    f: Any = None,
    input_types: Any = None,
    result_types: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
) -> Any:
    """A function that gives rows for each row; also as a decorator.

    Args:
        f: a generator or a function that returns a list, or a TableFunction.
        result_types: the types of the columns of its rows, which are f0, f1 and so on where a call gives them no names.
            DataTypes.ROW is its types, as in Flink; written as a text, `"ROW<word STRING, size INT>"`, it names them.
    """
    if result_types is None:
        raise InvalidProgramError("udtf needs result_types=, the types of the columns of its rows")
    several = isinstance(result_types, list | tuple)
    rows = DataTypes.ROW(list(map(logical_type, result_types))) if several else logical_type(result_types)
    if isinstance(result_types, RowType):
        rows = DataTypes.ROW(result_types.types)
    elif not isinstance(rows, RowType):
        rows = DataTypes.ROW([rows])
    return _wrapper(f, name, rows, input_types, "table", GENERAL, deterministic)


@_also_a_decorator
def udaf(
    f: Any = None,
    input_types: Any = None,
    result_type: Any = None,
    accumulator_type: Any = None,  # noqa: ARG001 - of PyFlink: here accumulators are objects of any type
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = GENERAL,
) -> Any:
    """A function that gives a value for each group; also as a decorator.

    Args:
        f: an AggregateFunction; with `func_type="pandas"` or "arrow", a function of whole columns.
    """
    given = f.get_result_type() if result_type is None and hasattr(f, "get_result_type") else result_type
    return _wrapper(f, name, _result(f, given, "udaf"), input_types, "aggregate", func_type, deterministic)


@_also_a_decorator
def udtaf(
    f: Any = None,
    input_types: Any = None,
    result_type: Any = None,
    accumulator_type: Any = None,  # noqa: ARG001 - of PyFlink: here accumulators are objects of any type
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = GENERAL,
) -> Any:
    """A function that gives rows for each group, which `flat_aggregate` takes; also as a decorator.

    Args:
        f: a TableAggregateFunction.
        result_type: a ROW, which names the columns.
    """
    if func_type != GENERAL:
        raise InvalidProgramError(f"udtaf(func_type={func_type!r}): table aggregates take one row after the other")
    function = f() if inspect.isclass(f) else f
    if not isinstance(function, TableAggregateFunction):
        raise InvalidProgramError(f"udtaf takes a TableAggregateFunction, not {f!r}")
    given = function.get_result_type() if result_type is None else result_type
    rows = _result(function, given, "udtaf")
    if not isinstance(rows, RowType):
        rows = DataTypes.ROW([rows])
    kind = DataTypes.ARRAY(rows.not_null())
    own = name or own_name(function)
    return _wrapper(EmittedRows(function), own, kind, input_types, "aggregate", GENERAL, deterministic)


def _wrapper(
    f: Any,
    name: str | None,
    result: LogicalType,
    input_types: Any,
    kind: str,
    func_type: str,
    deterministic: bool | None,
) -> UserDefinedFunctionWrapper:
    if inspect.isclass(f):
        f = f()
    if not callable(f) and not hasattr(f, "eval") and not isinstance(f, AggregateFunction):
        raise InvalidProgramError(f"a function is a callable, or an object with eval, not {f!r}")
    parameters = None
    if input_types is not None:
        several = input_types if isinstance(input_types, list | tuple) else [input_types]
        parameters = tuple(logical_type(each) for each in several)
    if deterministic is None:
        deterministic = bool(f.is_deterministic()) if hasattr(f, "is_deterministic") else True
    own = name or own_name(f)
    return UserDefinedFunctionWrapper(f, own, result, parameters, kind, func_type, deterministic)


def _result(f: Any, given: Any, what: str) -> LogicalType:
    if given is not None:
        return logical_type(given)
    function: Callable[..., Any] = getattr(f, "eval", f)
    try:
        annotated = get_type_hints(function).get("return")
    except Exception:
        annotated = None
    if annotated is None:
        raise InvalidProgramError(f"{what} needs result_type=, the type of what {own_name(f)} gives")
    return logical_type(annotated)


def own_name(f: Any) -> str:
    """What an error calls a function."""
    return str(getattr(f, "__name__", type(f).__name__))


__all__ = ["ARROW", "UNNAMED", "RowCall", "UserDefinedFunctionWrapper", "own_name", "udaf", "udf", "udtaf", "udtf"]
