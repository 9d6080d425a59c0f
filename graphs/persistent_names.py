"""What the names of `flinkray.persistence` stand for in this package; see `flinkray.persistent_names`."""

from __future__ import annotations

NAMES = {
    "ChainedEdge@1": "graphs.job_graph:ChainedEdge",
    "CheckpointRetention@1": "graphs.job_graph:CheckpointRetention",
    "CheckpointSettings@1": "graphs.job_graph:CheckpointSettings",
    "CoordinatorConfig@1": "graphs.job_graph:CoordinatorConfig",
    "DistributionPattern@1": "graphs.job_graph:DistributionPattern",
    "IntermediateDataSet@1": "graphs.job_graph:IntermediateDataSet",
    "JobEdge@1": "graphs.job_graph:JobEdge",
    "JobGraph@1": "graphs.job_graph:JobGraph",
    "JobVertex@1": "graphs.job_graph:JobVertex",
    "NetworkEdge@1": "graphs.job_graph:NetworkEdge",
    "NetworkInput@1": "graphs.job_graph:NetworkInput",
    "OperatorCode@1": "graphs.job_graph:OperatorCode",
    "OperatorConfig@1": "graphs.job_graph:OperatorConfig",
    "ResultPartitionType@1": "graphs.job_graph:ResultPartitionType",
    "SourceInput@1": "graphs.job_graph:SourceInput",
    "TaskKind@1": "graphs.job_graph:TaskKind",
}
FORMER: dict[str, str] = {}
"""What had another name than its own when there were only paths, of modules in 0.1.0.dev0."""
