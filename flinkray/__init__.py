"""flinkray: stateful streams over Arrow batches, on Ray. Everything a program needs is importable from here.

The names are in `__init__.pyi`. Each is imported when it is first asked for, as a job's processes need few of them, and
would each spend a quarter of a second and some MiB on all.
"""

from __future__ import annotations

import lazy_loader

from flinkray.package_check import check_packages

check_packages()

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
