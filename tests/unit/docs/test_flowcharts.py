"""Pictures of flow charts have the boxes, frames and arrows of the chart, none over another."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from itertools import combinations

import pytest

from docs.extensions.flowcharts import flowchart_svg, parsed

CHART = """
flowchart LR
    a["Source<br/>parallelism 2"] -->|"HASH"| b["Window"]
    subgraph f["Frame of &quot;both&quot;"]
        b --> c["Sink &lt;1&gt;"]
        b <-->|"asks"| d
    end
    a --> c
"""

Edges = tuple[float, float, float, float]
"""Left, top, right, bottom."""


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("tspan")]


def rectangles(svg: str, kind: str) -> list[Edges]:
    """Of the boxes, or the frames."""
    found = re.findall(rf'class="{kind}"><rect x="(.*?)" y="(.*?)" width="(.*?)" height="(.*?)"', svg)
    return [(float(x), float(y), float(x) + float(w), float(y) + float(h)) for x, y, w, h in found]


def is_within(inner: Edges, outer: Edges) -> bool:
    return outer[0] < inner[0] and outer[1] < inner[1] and inner[2] < outer[2] and inner[3] < outer[3]


def test_a_chart_has_its_boxes_arrows_and_frames() -> None:
    chart = parsed(CHART)
    assert {name: box.lines for name, box in chart.boxes.items()} == {
        "a": ["Source", "parallelism 2"],
        "b": ["Window"],
        "c": ["Sink <1>"],
        "d": ["d"],
    }
    assert [(each.source, each.target, each.lines, each.is_double) for each in chart.arrows] == [
        ("a", "b", ["HASH"], False),
        ("b", "c", [], False),
        ("b", "d", ["asks"], True),
        ("a", "c", [], False),
    ]
    assert chart.frames == {"f": ['Frame of "both"']}
    assert {name for name, box in chart.boxes.items() if box.frame == "f"} == {"b", "c", "d"}


def test_everything_is_written_in_the_picture() -> None:
    assert sorted(texts(flowchart_svg(CHART))) == sorted(
        ["Source", "parallelism 2", "Window", "Sink <1>", "d", "HASH", "asks", 'Frame of "both"']
    )


def test_boxes_are_apart_and_right_of_what_they_have_arrows_from() -> None:
    svg = flowchart_svg(CHART)
    boxes = rectangles(svg, "box")
    for one, other in combinations(boxes, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    source, window, sink, _ = boxes
    assert source[2] < window[0] < window[2] < sink[0]


def test_a_frame_is_around_its_boxes_and_everything_within_the_picture() -> None:
    svg = flowchart_svg(CHART)
    (frame,) = rectangles(svg, "frame")
    assert all(is_within(box, frame) for box in rectangles(svg, "box")[1:])
    x, y, width, height = map(float, re.findall(r'viewBox="(\S+) (\S+) (\S+) (\S+)"', svg)[0])
    assert all(is_within(each, (x, y, x + width, y + height)) for each in [*rectangles(svg, "box"), frame])


def test_long_names_are_written_in_several_lines() -> None:
    chart = parsed('flowchart LR\n a["Source: readings -> Map Batches -> Timestamps/Watermarks<br/>parallelism 2"]')
    assert chart.boxes["a"].lines == ["Source: readings -> Map Batches ->", "Timestamps/Watermarks", "parallelism 2"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("graph TD\n a --> b", "expected 'flowchart LR'"),
        ("flowchart LR\n a ==> b", "cannot read 'a ==> b' from ' ==> b' on"),
        ("flowchart LR\n a --> b --> a", "round in a circle"),
    ],
)
def test_what_cannot_be_drawn_is_an_error(source: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        flowchart_svg(source)
