"""The Sphinx extension of these pages: references that are generated, pictures, docstrings, and links between names."""

from __future__ import annotations

import builtins
import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

from actors.client.cli import main
from docs.extensions.commands import command_reference
from docs.extensions.docstrings import to_rst
from docs.extensions.flowcharts import flowchart_svg
from docs.extensions.guarantees import guarantee_table
from docs.extensions.options import option_reference
from docs.extensions.public_names import is_protocol, public_classes, public_names
from flinkray.config.options import declared_options
from flinkray.rest.routes import table

INTERNAL = ("Transformation", "HarnessDriver", "Valid")
"""Parts of what no page describes: a class whose constructor takes one is not made by users."""

_MENTION = re.compile(r"(\w+)((?:\.\w+)*)(?:\(.*\))?")
_VARIABLES = {"env": "StreamExecutionEnvironment", "stream": "DataStream", "keyed": "KeyedStream"}
"""What pages call objects of these classes."""


class OptionReference(SphinxDirective):
    """`{option-reference}`: all options."""

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(option_reference(declared_options().values()), allow_section_headings=True)


class GuaranteeTable(SphinxDirective):
    """`{guarantee-table}`: what each sink promises."""

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(guarantee_table())


class CommandReference(SphinxDirective):
    """`{command-reference}`: all commands."""

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(command_reference(main, "flinkray"), allow_section_headings=True)


class RestReference(SphinxDirective):
    """`{rest-reference}`: all routes of the REST interface."""

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(table()))


class Mermaid(SphinxDirective):
    """A flow chart in Mermaid's language, as a picture."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        return [nodes.raw("", flowchart_svg("\n".join(self.content)), format="html")]


def convert_docstring(*event: Any) -> None:
    lines = event[-1]
    lines[:] = to_rst("\n".join(lines) + "\n").splitlines()


def hide_signature(_app: Sphinx, what: str, _name: str, value: Any, *event: Any) -> tuple[str, None] | None:
    """Leaves out the constructor of a class that users do not make."""
    signature = event[1] or ""
    if what == "class" and (is_protocol(value) or any(part in signature for part in INTERNAL)):
        return "", None
    return None


def keep_described_bases(*event: Any) -> None:
    """Names only the bases that the reference describes."""
    bases = event[-1]
    bases[:] = [base for base in bases if getattr(base, "__name__", "") in public_classes()]


def tidy(app: Sphinx, document: nodes.document) -> None:
    """Takes away what stands for nothing: an empty line of bases, and references to what Python itself has."""
    for paragraph in list(document.findall(nodes.paragraph)):
        if paragraph.astext() == "Bases:":
            paragraph.parent.remove(paragraph)
    for reference in list(document.findall(addnodes.pending_xref)):
        if reference.get("refdomain") == "py" and hasattr(builtins, reference["reftarget"]):
            reference.replace_self(nodes.Text(reference["reftarget"]))
    for literal in list(document.findall(nodes.literal)):
        if not isinstance(literal.parent, nodes.reference | addnodes.pending_xref | nodes.title):
            _link(app.env.docname, literal)


def _link(page: str, literal: nodes.literal) -> None:
    """Makes code a link where it names an option, or something that the reference describes."""
    text = literal.astext()
    if text in declared_options():
        domain, kind, target = "std", "confval", text
    else:
        mention = _MENTION.fullmatch(text)
        name = mention and _VARIABLES.get(mention[1], mention[1])
        if mention is None or name not in public_names() or (mention[1] != name and not mention[2]):
            return
        domain, kind, target = "py", "obj", public_names()[name] + mention[2]
    reference = addnodes.pending_xref(
        "", refdomain=domain, reftype=kind, reftarget=target, refexplicit=True, refwarn=False, refdoc=page
    )
    literal.replace_self(reference)
    reference += literal


def resolve(app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.Element) -> Any:
    """Finds a class by its own name, as annotations name it by the module that it lies in."""
    if node.get("refwarn") is False:
        return content  # what a page only mentions may have no entry
    if node.get("refdomain") != "py":
        return None
    objects = env.domains.python_domain.objects
    name = node["reftarget"].rpartition(".")[2]
    found = [full for full, entry in objects.items() if full.endswith(f".{name}") and entry.objtype in _TYPES]
    if len(found) != 1:
        return None
    return env.domains.python_domain.resolve_xref(
        env, node.get("refdoc", ""), app.builder, "obj", found[0], node, content
    )


_TYPES = ("class", "exception")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("option-reference", OptionReference)
    app.add_directive("command-reference", CommandReference)
    app.add_directive("guarantee-table", GuaranteeTable)
    app.add_directive("rest-reference", RestReference)
    app.add_directive("mermaid", Mermaid)
    app.connect("autodoc-process-docstring", convert_docstring)
    app.connect("autodoc-process-signature", hide_signature)
    app.connect("autodoc-process-bases", keep_described_bases)
    app.connect("doctree-read", tidy)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
