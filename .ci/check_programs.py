"""Checks the types of the programs that the documentation shows, as its readers' editors do.

    python .ci/check_programs.py DIRECTORY

Each page's programs are written into one module of the directory, on the lines that they have in the page, so that
errors name these. mypy is asked strictly, pyright by its standard.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def module_of(page: str) -> str:
    """The programs of a page, each on its own lines; empty where the page has none."""
    lines = [""] * page.count("\n")
    for block in BLOCK.finditer(page):
        begin = page.count("\n", 0, block.start(1))
        program = block[1].splitlines()
        lines[begin : begin + len(program)] = program
    return "\n".join(lines).rstrip() + "\n" if any(lines) else ""


def write_modules(directory: Path) -> None:
    """Writes a module for each page that has programs."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        module = module_of(page.read_text(encoding="utf-8"))
        if module:
            name = "_".join(page.relative_to(ROOT).with_suffix("").parts).replace("-", "_")
            (directory / f"{name}.py").write_text(module, encoding="utf-8")


def main(directory: Path) -> int:
    write_modules(directory)
    checks = (["mypy", "--strict"], ["pyright", "--pythonpath", sys.executable])
    found = [subprocess.run([sys.executable, "-m", *check, str(directory)], check=False) for check in checks]
    return max(each.returncode for each in found)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
