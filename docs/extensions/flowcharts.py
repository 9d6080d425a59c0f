"""Flow charts as SVG: of Mermaid's language what flinkray writes, `flowchart LR` with boxes, frames and arrows.

Boxes stand in columns, each right of all that it has arrows from. An arrow over several columns passes through a place
of its own in those between. Colours are those of the page, so that a picture is light or dark as the page is.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_BOX = re.compile(r'(\w+)(?:\["(.*?)"\])?')
_ARROW = re.compile(r'\s*(<?)-->(?:\|"(.*?)"\|)?\s*')

CHARACTER, LINE = 7.4, 18  # how large text of 14 pixels is at most, in pixels
PADDING, ROW_GAP, COLUMN_GAP, LABEL_GAP, FRAME = 12, 26, 56, 44, 14
LONGEST_LINE = 34  # of characters in a box

Extent = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass
class Box:
    lines: list[str]
    frame: str | None = None
    column: int = 0
    x: float = 0.0
    """Of its left side."""
    y: float = 0.0
    """Of its middle."""
    width: float = 0.0

    @property
    def height(self) -> float:
        return len(self.lines) * LINE + 2 * PADDING if self.lines else 0.0


@dataclass
class Arrow:
    source: str
    target: str
    lines: list[str]
    is_double: bool = False
    path: list[str] = field(default_factory=list)
    """The boxes and the places between that it passes through, from the source to the target."""


@dataclass
class Chart:
    boxes: dict[str, Box] = field(default_factory=dict)
    arrows: list[Arrow] = field(default_factory=list)
    frames: dict[str, list[str]] = field(default_factory=dict)
    """The title of each frame, in lines."""


def flowchart_svg(source: str) -> str:
    """The picture of a flow chart.

    Raises:
        ValueError: the source has something that this module does not know; names the line.
    """
    chart = parsed(source)
    _set_columns(chart)
    _place(chart)
    return _drawn(chart)


def parsed(source: str) -> Chart:
    chart = Chart()
    frame: str | None = None
    first, *lines = [line.strip() for line in source.strip().splitlines()]
    if first != "flowchart LR":
        raise ValueError(f"expected 'flowchart LR', found {first!r}")
    for line in filter(None, lines):
        if line == "end":
            frame = None
        elif line.startswith("subgraph "):
            name, title = _BOX.fullmatch(line.removeprefix("subgraph ")).groups()  # type: ignore[union-attr]
            chart.frames[name] = _lines(title or name)
            frame = name
        else:
            _parse_statement(chart, line, frame)
    return chart


def _parse_statement(chart: Chart, line: str, frame: str | None) -> None:
    """A box, or boxes with arrows between them. A box belongs to the first frame that names it."""
    position, before, arrow = 0, None, None
    while position < len(line):
        box = _BOX.match(line, position)
        if box is None:
            raise ValueError(f"cannot read {line!r} from {line[position:]!r} on")
        name, label = box.groups()
        known = chart.boxes.setdefault(name, Box([name]))
        known.frame = known.frame or frame
        if label is not None:
            known.lines = _lines(label)
        if before is not None and arrow is not None:
            chart.arrows.append(Arrow(before, name, _lines(arrow[2] or ""), arrow[1] == "<"))
        before, position = name, box.end()
        arrow = _ARROW.match(line, position)
        if arrow is None and position < len(line):
            raise ValueError(f"cannot read {line!r} from {line[position:]!r} on")
        position = arrow.end() if arrow else position


def _lines(label: str) -> list[str]:
    """The lines of a label, long ones in several."""
    lines = [html.unescape(line) for line in label.split("<br/>") if line]
    return [part for line in lines for part in textwrap.wrap(line, LONGEST_LINE, break_long_words=False)]


def _set_columns(chart: Chart) -> None:
    """Puts each box right of what has arrows to it, and gives each arrow a place in the columns between."""
    for _ in chart.boxes:
        for arrow in chart.arrows:
            source, target = chart.boxes[arrow.source], chart.boxes[arrow.target]
            target.column = max(target.column, source.column + 1)
    if any(chart.boxes[arrow.source].column >= chart.boxes[arrow.target].column for arrow in chart.arrows):
        raise ValueError("the arrows go round in a circle")
    for number, arrow in enumerate(chart.arrows):
        between = range(chart.boxes[arrow.source].column + 1, chart.boxes[arrow.target].column)
        frames = {chart.boxes[arrow.source].frame, chart.boxes[arrow.target].frame}
        frame = frames.pop() if len(frames) == 1 else None
        places = {f" {number} {column}": Box([], frame, column) for column in between}
        chart.boxes.update(places)
        arrow.path = [arrow.source, *places, arrow.target]


def _place(chart: Chart) -> None:
    """Boxes of a column stand below each other, near the middle of what they have arrows from, and then of those to."""
    columns: list[list[Box]] = [[] for _ in range(1 + max(box.column for box in chart.boxes.values()))]
    for box in chart.boxes.values():
        columns[box.column].append(box)
    for column in columns:
        _stack(column, [0.0] * len(column))
    links = [(chart.boxes[a], chart.boxes[b]) for arrow in chart.arrows for a, b in pairwise(arrow.path)]
    for _ in range(4):
        for column in columns[1:]:
            _stack(column, [_middle([a for a, b in links if b is box], box) for box in column])
        for column in reversed(columns[:-1]):
            _stack(column, [_middle([b for a, b in links if a is box], box) for box in column])
    x = 0.0
    for number, column in enumerate(columns):
        inner = max(_width(box.lines) for box in column) + 2 * PADDING
        titles = (_width(chart.frames[box.frame]) + 2 * FRAME for box in column if box.frame)
        outer = max([inner, *(title - 2 * FRAME for title in titles)])
        for box in column:
            box.x, box.width = x + (outer - inner) / 2, inner
        labels = (_width(arrow.lines) for arrow in chart.arrows if chart.boxes[arrow.source].column == number)
        x += outer + max(COLUMN_GAP, LABEL_GAP + max(labels, default=0.0))


def _middle(others: Sequence[Box], box: Box) -> float:
    return sum(other.y for other in others) / len(others) if others else box.y


def _stack(column: list[Box], wanted: Sequence[float]) -> None:
    """Puts the boxes in the order of the wanted places, none over another, their middle in the middle of these."""
    order = sorted(zip(wanted, range(len(column)), column, strict=True), key=lambda entry: (entry[0], entry[1]))
    column[:] = [box for _, _, box in order]
    gaps = [ROW_GAP + (4 * FRAME if a.frame != b.frame else 0) for a, b in pairwise(column)]
    y = (sum(wanted) / len(wanted)) - (sum(box.height for box in column) + sum(gaps)) / 2
    for box, gap in zip(column, [*gaps, 0], strict=True):
        box.y = y + box.height / 2
        y += box.height + gap


def _drawn(chart: Chart) -> str:
    boxes = list(chart.boxes.values())
    frames = {name: _extent([box for box in boxes if box.frame == name], title) for name, title in chart.frames.items()}
    left, top, right, bottom = _around([*map(_edges, boxes), *frames.values()], 2)
    parts = [
        *(_frame(chart.frames[name], extent) for name, extent in frames.items()),
        *(_arrow(chart, arrow) for arrow in chart.arrows),
        *(_box(box) for box in boxes if box.lines),
    ]
    return (
        f'<svg class="flowchart" role="img" xmlns="http://www.w3.org/2000/svg" width="{right - left:g}" '
        f'viewBox="{left:g} {top:g} {right - left:g} {bottom - top:g}">\n{_MARKER}\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _edges(box: Box) -> Extent:
    return box.x, box.y - box.height / 2, box.x + box.width, box.y + box.height / 2


def _around(inner: Iterable[Extent], margin: float) -> Extent:
    lefts, tops, rights, bottoms = zip(*inner, strict=True)
    return min(lefts) - margin, min(tops) - margin, max(rights) + margin, max(bottoms) + margin


def _extent(members: Sequence[Box], title: Sequence[str]) -> Extent:
    """Of a frame around boxes, with its title above them."""
    left, top, right, bottom = _around(map(_edges, members), FRAME)
    missing = max(0.0, _width(title) + 2 * FRAME - (right - left))
    return left - missing / 2, top - LINE * len(title), right + missing / 2, bottom


_MARKER = (
    '<defs><marker id="arrowhead" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
    'orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z"/></marker></defs>'
)


def _box(box: Box) -> str:
    middle = box.x + box.width / 2
    rectangle = (
        f'<rect x="{box.x:g}" y="{box.y - box.height / 2:g}" width="{box.width:g}" height="{box.height:g}" rx="6"/>'
    )
    return f'<g class="box">{rectangle}{_text(box.lines, middle, box.y)}</g>'


def _frame(title: Sequence[str], extent: Extent) -> str:
    left, top, right, bottom = extent
    rectangle = f'<rect x="{left:g}" y="{top:g}" width="{right - left:g}" height="{bottom - top:g}" rx="8"/>'
    return f'<g class="frame">{rectangle}{_text(title, (left + right) / 2, top + (FRAME + LINE * len(title)) / 2)}</g>'


def _arrow(chart: Chart, arrow: Arrow) -> str:
    boxes = [chart.boxes[name] for name in arrow.path]
    curve = ""
    for a, b in pairwise(boxes):
        start, end = a.x + a.width, b.x
        bend = (end - start) / 2
        curve += f"{'L' if curve else 'M'}{start:g} {a.y:g} "
        curve += f"C{start + bend:g} {a.y:g} {end - bend:g} {b.y:g} {end:g} {b.y:g} "
    first, second = boxes[:2]
    middle = ((first.x + first.width + second.x) / 2, (first.y + second.y) / 2)
    tail = ' marker-start="url(#arrowhead)"' if arrow.is_double else ""
    line = f'<path d="{curve.strip()}" marker-end="url(#arrowhead)"{tail}/>'
    return f'<g class="arrow">{line}{_text(arrow.lines, *middle)}</g>'


def _text(lines: Sequence[str], x: float, y: float) -> str:
    """Lines around a middle."""
    first = y - (len(lines) - 1) * LINE / 2
    spans = (f'<tspan x="{x:g}" y="{first + i * LINE:g}">{html.escape(line)}</tspan>' for i, line in enumerate(lines))
    return f"<text>{''.join(spans)}</text>" if lines else ""


def _width(lines: Iterable[str]) -> float:
    return max((len(line) * CHARACTER for line in lines), default=0.0)
