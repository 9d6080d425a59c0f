"""Every description has an operator."""

from __future__ import annotations

from actors.operators import registry
from flinkray.transformations.operator_factories import OperatorFactory, TableFactory


def all_factories(base: type[OperatorFactory]) -> set[type[OperatorFactory]]:
    # A dataclass with slots is a second class; the first, without, may still be listed.
    found = {c for c in base.__subclasses__() if c.__module__ == OperatorFactory.__module__}
    return found.union(*(all_factories(c) for c in found))


def test_every_factory_has_an_operator() -> None:
    missing = {c for c in all_factories(OperatorFactory) if not c.is_row_function} - set(registry._OPERATORS)
    assert missing == {TableFactory}
