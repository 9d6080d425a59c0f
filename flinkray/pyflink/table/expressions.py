"""`pyflink.table.expressions`."""

from __future__ import annotations

from flinkray.pyflink.imported_names import imported
from flinkray.tables.api.expressions import *  # noqa: F403
from flinkray.tables.api.expressions import __all__ as __all__
from flinkray.tables.api.expressions import json as json

__getattr__ = imported(__name__)
