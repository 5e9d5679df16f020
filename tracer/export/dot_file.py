"""The `.dot` format: Graphviz text (`dot -Tsvg graph.dot`). Graphviz itself is not needed to write it."""

from __future__ import annotations

from fusegrad.tracer.export.drawing import Drawing, Node, drawing
from fusegrad.tracer.export.program import Program

# kind: (shape, fill, line). Inputs and results differ by shape, ops by colour, guards are diamonds.
_LOOKS = {
    "argument": ("oval", "#ffffff", "#334155"),
    "parameter": ("cylinder", "#fef9c3", "#a16207"),
    "constant": ("note", "#f1f5f9", "#64748b"),
    "creation": ("box", "#dcfce7", "#15803d"),
    "random": ("box", "#fce7f3", "#be185d"),
    "elementwise": ("box", "#dbeafe", "#1d4ed8"),
    "reduction": ("box", "#ffedd5", "#c2410c"),
    "view": ("box", "#f1f5f9", "#475569"),
    "contraction": ("box", "#ede9fe", "#6d28d9"),
    "composite": ("box", "#ccfbf1", "#0f766e"),
    "opaque": ("box", "#e7e5e4", "#57534e"),
    "op": ("box", "#e7e5e4", "#57534e"),
    "guard": ("diamond", "#fee2e2", "#b91c1c"),
    "output": ("doubleoctagon", "#ffffff", "#334155"),
}


def dot_file(program: Program) -> bytes:
    """The drawing as a digraph."""
    return dot_text(drawing(program), program.name).encode()


def dot_text(drawn: Drawing, name: str) -> str:
    """`digraph`: one line a box, one line an arrow."""
    lines = [
        f"digraph {_quoted(name)} {{",
        f"  label={_quoted(name)}; labelloc=t; rankdir=TB; ranksep=0.35; nodesep=0.25;",
        '  node [fontname="Helvetica", fontsize=11, style="filled", margin="0.12,0.06"];',
        '  edge [fontname="Helvetica", fontsize=9, color="#94a3b8", arrowsize=0.7];',
    ]
    lines += [_node_line(node) for node in drawn.nodes]
    lines += [f"  {e.tail} -> {e.head} [label={_quoted(e.value)}];" for e in drawn.edges]
    return "\n".join([*lines, "}", ""])


def _node_line(node: Node) -> str:
    shape, fill, line = _LOOKS[node.kind]
    rows = [f"{node.title} {node.detail}".strip(), node.type, str(node.source or "")]
    style = ', style="filled,rounded"' if shape == "box" else ""
    label = _quoted("\n".join(r for r in rows if r))
    look = f'shape={shape}, fillcolor="{fill}", color="{line}"{style}'
    return f"  {node.key} [label={label}, tooltip={_quoted(node.text)}, {look}];"


def _quoted(text: str) -> str:
    """A string of the DOT language."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
