"""Which operator of tables runs which factory; each is imported when a job first uses it."""

from __future__ import annotations

from actors.operators.contract.operator import Operator
from flinkray.transformations import table_factories as factories
from flinkray.transformations import table_join_factories as joins
from flinkray.transformations import table_window_factories as windows
from flinkray.transformations.operator_factories import TableFactory


def create_table_operator(factory: TableFactory) -> Operator:
    """The operator that a factory describes."""
    match factory:
        case factories.DeduplicateFactory():
            from actors.operators.tables.ranks.deduplicate import DeduplicateOperator

            return DeduplicateOperator(factory)
        case factories.RankFactory():
            from actors.operators.tables.ranks.rank import RankOperator

            return RankOperator(factory)
        case factories.SortFactory():
            from actors.operators.tables.ranks.sort import SortOperator

            return SortOperator(factory)
        case factories.OverFactory():
            from actors.operators.tables.over.operator import OverOperator

            return OverOperator(factory)
        case factories.MatchFactory():
            from actors.operators.tables.matches.operator import MatchOperator

            return MatchOperator(factory)
        case factories.NormalizeFactory():
            from actors.operators.tables.ranks.normalize import NormalizeOperator

            return NormalizeOperator(factory)
        case factories.GroupAggregateFactory():
            from actors.operators.tables.aggregates.group_aggregate import GroupAggregateOperator

            return GroupAggregateOperator(factory)
        case factories.LocalAggregateFactory():
            from actors.operators.tables.aggregates.local_aggregate import LocalAggregateOperator

            return LocalAggregateOperator(factory)
        case factories.ConstraintsFactory():
            from actors.operators.tables.constraints import ConstraintsOperator

            return ConstraintsOperator(factory)
        case factories.ExpandFactory():
            from actors.operators.tables.aggregates.expand import ExpandOperator

            return ExpandOperator(factory)
        case joins.RegularJoinFactory():
            from actors.operators.tables.joins.regular import RegularJoinOperator

            return RegularJoinOperator(factory)
        case joins.TableIntervalJoinFactory():
            from actors.operators.tables.joins.interval import TableIntervalJoinOperator

            return TableIntervalJoinOperator(factory)
        case joins.TemporalJoinFactory():
            from actors.operators.tables.joins.temporal import TemporalJoinOperator

            return TemporalJoinOperator(factory)
        case joins.LookupJoinFactory():
            from actors.operators.tables.joins.lookup import LookupJoinOperator

            return LookupJoinOperator(factory)
        case joins.UnnestFactory():
            from actors.operators.tables.joins.unnest import UnnestOperator

            return UnnestOperator(factory)
        case joins.SetOperationFactory():
            from actors.operators.tables.joins.set_operation import SetOperationOperator

            return SetOperationOperator(factory)
        case windows.WindowAggregateFactory():
            from actors.operators.tables.windows.aggregate import WindowAggregateOperator

            return WindowAggregateOperator(factory)
        case windows.SessionFactory():
            from actors.operators.tables.windows.session import SessionOperator

            return SessionOperator(factory)
        case windows.WindowRankFactory():
            from actors.operators.tables.windows.rank import WindowRankOperator

            return WindowRankOperator(factory)
        case windows.WindowJoinFactory():
            from actors.operators.tables.windows.join import WindowJoinOperator

            return WindowJoinOperator(factory)
    raise TypeError(f"no operator is registered for {type(factory).__name__}")
