"""Operator coordinators: the part of a source or of a collecting sink that lives at the JobMaster."""

from actors.coordinators.alignment import WatermarkAlignment
from actors.coordinators.base import CoordinatorContext, OperatorCoordinator
from actors.coordinators.collect_coordinator import CollectCoordinator
from actors.coordinators.factory import create_coordinator
from actors.coordinators.source_coordinator import SourceCoordinator

__all__ = [
    "CollectCoordinator",
    "CoordinatorContext",
    "OperatorCoordinator",
    "SourceCoordinator",
    "WatermarkAlignment",
    "create_coordinator",
]
