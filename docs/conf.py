"""How Sphinx builds these pages: `make docs`, into build/docs. Nothing is asked of the network."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed
from pathlib import Path

# The program of this tree is described, whatever else is installed; and its pages' own extension lies beside this file.
sys.path.insert(0, str(Path(__file__).parents[1]))

from docs.extensions.public_names import is_protocol, public_classes

project = "flinkray"
author = "the authors of flinkray"
copyright = author
release = installed("flinkray")

extensions = ["myst_parser", "sphinx.ext.autodoc", "docs.extensions.site"]
exclude_patterns = ["extensions"]
nitpicky = True
# What is not ours has no page here, and names of types that stand for any, or for a plain number or text, need none.
nitpick_ignore_regex = [
    ("py:.*", r"(abc|collections|datetime|numpy|os|pandas|pathlib|pd|pa|pyarrow|typing)\..*"),
    ("py:.*", r"flinkray\..*\.(T|K|V|S|IN|OUT|V_OUT|Millis|Timestamp|JobId|ColumnKey|FunctionKey|Valid|_Committable)"),
    ("py:.*", r"flinkray\..*\.PredefinedOptions"),
    ("py:.*", "KeyFunction"),
    # What statements and plans of SQL are made of is no business of who writes them.
    ("py:.*", r"flinkray\.tables\.(plans|syntax|types)\..*"),
    ("py:.*", r"flinkray\..*\.(Inserts|PlannedInsert|Planned|Plans|PlanContent|Tables|StreamRunner|Grouped|Answer)"),
    ("py:.*", r"flinkray\.tables\.api\.(windows\._\w+|expression\.Expression)"),
]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
myst_fence_as_directive = ["mermaid"]

OTHERS = ["object", "int", "str", "tuple", "dict", "BaseException", "Enum", "Struct", "Protocol", "Generic", "Iterator"]

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_default_options = {
    "members": True,
    "undoc-members": True,
    "show-inheritance": True,
    # What a class has from another public one is described there. Sphinx cannot ask that of protocols.
    "inherited-members": ",".join([*(name for name, it in public_classes().items() if not is_protocol(it)), *OTHERS]),
}
python_use_unqualified_type_names = True
python_display_short_literal_types = True
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"flinkray {release}"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["static"]
html_css_files = ["site.css"]
