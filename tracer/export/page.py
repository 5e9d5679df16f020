"""The `.html` format: one page with the graph drawn as SVG, the user's lines and the typed Python.

The page needs no network: its style (`page.css`) and script (`page.js`) are written into it.
Without scripts the drawing, the source and the text still stand there to read.
"""

from __future__ import annotations

import linecache
import os
from collections import Counter
from collections.abc import Iterable
from html import escape
from pathlib import Path

import numpy as np

from fusegrad.tracer.export.drawing import KINDS, Drawing, Edge, Node, drawing
from fusegrad.tracer.export.layout import Box, Layout, layout
from fusegrad.tracer.export.program import Program
from fusegrad.tracer.ir.graph import Source, print_graph, type_text

_HERE = Path(__file__).parent
ROW, PADDING, MARGIN = 17.0, 10.0, 24.0
TITLE_WIDTH, SMALL_WIDTH = 7.6, 6.35  # of a character, in pixels
SIGNATURE_VALUES = 12  # shown in the head
CONTEXT_LINES = 2  # of source around the lines that are drawn


def page_file(program: Program) -> bytes:
    """The page's text."""
    return page(program).encode()


def page(program: Program) -> str:
    """The whole document."""
    drawn = drawing(program)
    title = escape(program.name)
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title} · fusegrad graph</title>",
            f"<style>\n{(_HERE / 'page.css').read_text()}</style>\n</head>\n<body>",
            _header(program, drawn),
            "<main>",
            _canvas(drawn),
            f"<aside>\n{_DETAIL}\n{_source_panel(drawn)}\n</aside>",
            "</main>",
            _text_panel(program, drawn),
            f"<script>\n{(_HERE / 'page.js').read_text()}</script>\n</body>\n</html>\n",
        ]
    )


def _tag(name: str, content: str, **attributes: str) -> str:
    """An element; `class_` and `data_key` say the attributes class and data-key. Content comes escaped."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value, quote=True)}"'
        for key, value in attributes.items()
    )
    return f"<{name}{said}>{content}</{name}>"


# The head: name, signature, what is in the graph.


def _header(program: Program, drawn: Drawing) -> str:
    takes = _some(f"<b>{escape(v.name)}</b> {escape(type_text(v.type))}" for v in program.arguments)
    gives = _some(escape(n.type) for n in drawn.nodes if n.kind == "output")
    facts = "".join(f"<li>{fact}</li>" for fact in _facts(program, drawn))
    arrow = _tag("span", "→", class_="arrow", aria_label="gives")
    parts = [
        _tag("h1", escape(program.name)),
        _tag("p", f"{takes}{arrow}{gives}", class_="signature"),
        _tag("ul", facts, class_="facts"),
        _legend(drawn),
    ]
    return _tag("header", "\n".join(parts))


def _some(values: Iterable[str]) -> str:
    """The first values of a list, and how many more there are."""
    every = list(values)
    more = len(every) - SIGNATURE_VALUES
    shown = every[:SIGNATURE_VALUES] + ([f"… {more} more"] if more > 0 else [])
    return "".join(f'<span class="value">{v}</span>' for v in shown)


def _facts(program: Program, drawn: Drawing) -> list[str]:
    equations = sum(n.key.startswith("e") and n.kind != "guard" for n in drawn.nodes)
    facts = [_count(equations, "equation")]
    sizes = [t.array.size for t in program.captured.values()]
    if sizes:
        facts.append(f"{_count(len(sizes), 'parameter')}, {sum(sizes):,} numbers")
    if program.constants:
        facts.append(_count(len(program.constants), "constant"))
    facts.append(_count(len(program.graph.guards()), "guard") + " on data")
    arrays = [np.asarray(t.array) for t in program.examples]
    facts.append(f"captured on {_count(len(arrays), 'tensor')}, {sum(a.nbytes for a in arrays):,} bytes")
    if program.dropped:
        facts.append(f"{program.dropped} results that were None are left out")
    return facts


def _count(number: int, what: str) -> str:
    return f"<b>{number}</b> {what}{'' if number == 1 else 's'}"


def _legend(drawn: Drawing) -> str:
    counts = Counter(n.kind for n in drawn.nodes)
    chips = [
        _tag(
            "button",
            f"<i></i>{kind}<b>{counts[kind]}</b>",
            class_=f"chip k-{kind}",
            data_kind=kind,
            aria_pressed="false",
        )
        for kind in KINDS
        if counts[kind]
    ]
    return _tag("div", "".join(chips), class_="legend", role="group", aria_label="show one kind")


# The drawing.


def _canvas(drawn: Drawing) -> str:
    inputs = ("argument", "parameter", "constant")
    boxes = [Box(n.key, *_size(n), n.kind in inputs) for n in drawn.nodes]
    placed = layout(boxes, [(e.tail, e.head) for e in drawn.edges])
    sizes = {b.key: (b.width, b.height) for b in boxes}
    arrows = "\n".join(_arrow(e, p) for e, p in zip(drawn.edges, placed.paths, strict=True))
    shapes = "\n".join(_box(n, placed, sizes[n.key]) for n in drawn.nodes)
    view = f"{-MARGIN:g} {-MARGIN:g} {placed.width + 2 * MARGIN:.0f} {placed.height + 2 * MARGIN:.0f}"
    return f"""<section class="canvas" aria-label="the graph">
<div class="tools"><button data-zoom="1.3" title="closer">+</button>
<button data-zoom="0.77" title="farther">−</button>
<button data-zoom="fit" title="show all">fit</button></div>
<svg viewBox="{view}" preserveAspectRatio="xMidYMin meet" role="img">
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 .8 7.4 4 0 7.2z"/></marker></defs>
<g class="arrows">
{arrows}
</g>
{shapes}
</svg>
</section>"""


def _rows(node: Node) -> list[str]:
    """The small rows under the title."""
    return [r for r in (_clipped(node.detail), _clipped(node.type)) if r]


def _clipped(text: str, length: int = 34) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _size(node: Node) -> tuple[float, float]:
    top = len(node.title) * TITLE_WIDTH + (len(str(node.source)) * SMALL_WIDTH + 14 if node.source else 0)
    rows = _rows(node)
    width = max([top, *(len(r) * SMALL_WIDTH for r in rows)]) + 2 * PADDING
    extra = 34.0 if node.kind == "guard" else 0.0  # a guard's box has slanted ends
    return max(width, 58.0) + extra, ROW * (1 + len(rows)) + PADDING


def _box(node: Node, placed: Layout, size: tuple[float, float]) -> str:
    x, y = placed.centres[node.key]
    width, height = size
    left, top = x - width / 2, y - height / 2
    inner = left + PADDING + (17 if node.kind == "guard" else 0)
    right = left + width - (inner - left)
    parts = [_outline(node, left, top, width, height)]
    parts.append(f'<text class="t" x="{inner:.1f}" y="{top + ROW:.1f}">{escape(node.title)}</text>')
    if node.source:
        said = escape(str(node.source))
        parts.append(f'<text class="s" text-anchor="end" x="{right:.1f}" y="{top + ROW:.1f}">{said}</text>')
    for i, row in enumerate(_rows(node), 2):
        parts.append(f'<text class="d" x="{inner:.1f}" y="{top + ROW * i:.1f}">{escape(row)}</text>')
    attributes = {"class_": f"node k-{node.kind}", "tabindex": "0", "role": "button", "aria_label": node.text}
    return _tag("g", "".join(parts), **attributes, **_node_data(node))


def _outline(node: Node, left: float, top: float, width: float, height: float) -> str:
    if node.kind == "guard":
        middle, right, bottom = top + height / 2, left + width, top + height
        points = [
            (left, middle),
            (left + 17, top),
            (right - 17, top),
            (right, middle),
            (right - 17, bottom),
            (left + 17, bottom),
        ]
        return f'<polygon points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in points)}"/>'
    radius = {"argument": height / 2, "output": height / 2, "parameter": 3, "constant": 3}.get(node.kind, 8)
    return f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:g}"/>'


def _node_data(node: Node) -> dict[str, str]:
    """What the script shows of a box that is chosen."""
    data = {"key": node.key, "kind": node.kind, "title": node.title, "text": node.text, "type": node.type}
    if node.source:
        data |= {"file": node.source.file, "line": str(node.source.line), "source": _line_text(node.source)}
    return {f"data_{k}": v for k, v in data.items()}


def _line_text(source: Source) -> str:
    return linecache.getline(source.file, source.line).strip()


def _arrow(edge: Edge, path: list[tuple[float, float]]) -> str:
    (x, y), *rest = path
    curve = [f"M{x:.1f} {y:.1f}"]
    for a, b in rest:
        half = (b - y) / 2
        curve.append(f"C{x:.1f} {y + half:.1f} {a:.1f} {b - half:.1f} {a:.1f} {b:.1f}")
        x, y = a, b
    title = _tag("title", escape(edge.value))
    return _tag("path", title, class_="arrow", data_tail=edge.tail, data_head=edge.head, d="".join(curve))


# Beside it: the chosen equation and the user's lines; below it: the typed Python.

_DETAIL = """<section class="detail" aria-live="polite">
<h2>Equation</h2>
<div id="detail"><p class="hint">Click a box, a source line or a line of the graph.
Drag to move, scroll to zoom, arrow keys to walk, Esc to let go.</p></div>
</section>"""


def _source_panel(drawn: Drawing) -> str:
    """The lines that the graph comes from, with a little context, file by file."""
    lines: dict[str, Counter[int]] = {}
    for node in drawn.nodes:
        if node.source:
            lines.setdefault(node.source.file, Counter())[node.source.line] += 1
    parts = ["<section>", "<h2>Source</h2>"]
    for file, counts in lines.items():
        name = escape(os.path.basename(file))
        parts.append(
            _tag("h3", name, title=file) + "\n" + _tag("pre", _listing(file, counts), class_="source")
        )
    return "\n".join([*parts, "</section>"])


def _listing(file: str, counts: Counter[int]) -> str:
    near = {n for line in counts for n in range(line - CONTEXT_LINES, line + CONTEXT_LINES + 1)}
    rows, last = [], None
    for number in sorted(n for n in near if 0 < n <= max(counts)):
        text = linecache.getline(file, number)
        if not text and number not in counts:
            continue
        if last is not None and number > last + 1:
            rows.append('<span class="gap">⋯</span>')
        last = number
        ops = counts.get(number, 0)
        said = f"<i>{ops} op{'s' if ops > 1 else ''}</i>" if ops else "<i></i>"
        data = {"data_file": file, "data_line": str(number)} if ops else {}
        content = f"<b>{number}</b>{said}<code>{escape(text.rstrip()) or ' '}</code>"
        rows.append(_tag("span", content, class_="line used" if ops else "line", **data))
    return "".join(rows)


def _text_panel(program: Program, drawn: Drawing) -> str:
    """The typed Python of the graph; its lines belong to boxes."""
    text = print_graph(program.graph, with_text=True)
    lines = text.split("\n")
    body_start = len(lines) - len(program.graph.equations) - 1
    keys = (
        [""] * body_start
        + [f"e{i}" for i in range(len(program.graph.equations))]
        + ["o0" if program.graph.outputs else ""]
    )
    rows = []
    for line, key in zip(lines, keys, strict=True):
        code, mark, comment = line.partition("  # ")
        said = f"<i>{escape('  # ' + comment)}</i>" if mark else ""
        data = f' class="line used" data-key="{key}"' if key else ' class="line"'
        rows.append(f"<span{data}><code>{escape(code)}{said}</code></span>")
    return f'<section class="text">\n<h2>Graph</h2>\n<pre>{"".join(rows)}</pre>\n</section>'
