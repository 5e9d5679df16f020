"""The `.fgx` format: the graph itself as text, with its tensors; `save` and `load` are its two ends.

The file is one that `fusegrad.save` writes, so reading it runs no code: the text is parsed, and each op is
looked up by its name. Open sizes are written by their names, `size.batch`, and sums and products of these.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping
from typing import Any

from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.pytree import Structure, flatten
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.io.serialization import load as load_data, save as save_data
from fusegrad.eager.nn.module import Module
from fusegrad.tracer.export.exported import Exported
from fusegrad.tracer.export.exported_call import Part, Place
from fusegrad.tracer.export.files import ExportError
from fusegrad.tracer.export.program import Program, difference
from fusegrad.tracer.ir.graph import check, print_graph
from fusegrad.tracer.ir.symbolic_sizes import Sizes
from fusegrad.tracer.ir.text import parse_graph

VERSION = 1
_LARGEST_TEXT = 1 << 28
_OPEN_SIZE = re.compile(r"<([^<>'\"]*)>")
_PLAIN = (bool, int, float, complex, str, type(None))


def graph_file(program: Program) -> bytes:
    """The file's bytes. Raises ExportError for what it cannot say, or if its results are not eager's."""
    content = {
        "fusegrad.export": VERSION,
        "name": program.name,
        "graph": _text(program),
        "sizes": _places(program),
        "arguments": _described(program.call, [_argument(leaf, program) for leaf in program.leaves]),
        "result": _described(program.result, [{"none": not there} for there in program.present]),
        "names": {v.name: list(program.names.get(v.name, ())) for v in program.data},
        "trained": [v.name for v, t in program.captured.items() if t.requires_grad],
        "tensors": {v.name: wrap(array) for v, array in program.data.items()},
    }
    buffer = io.BytesIO()
    save_data(content, buffer)
    data = buffer.getvalue()
    loaded = _loaded(content)
    program.try_each(lambda closed: _compare(closed, loaded))
    return data


def load(path: str | os.PathLike[str]) -> Exported:
    """The function that `save`, or `export` to a `.fgx` file, has written, as a module.

    It is called as the examples were given, with tensors of their shapes and dtypes; sizes that were left
    open may be others. Its parameters have the names that they had in a module, else those of the graph; they
    can be trained on, and `jit` compiles it as any other function. Nothing in the file is executed.

    Raises ExportError for a file that is damaged, is none of these, or wants ops that are not there. Source:
    `torch.export.load`.

    >>> import fusegrad as fg, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "layer.fgx")
    >>> layer = fg.nn.Linear(3, 2)
    >>> fg.export.save(layer, (fg.ones(4, 3),), path, dynamic_shapes={"input": {0: "batch"}})
    >>> again = fg.export.load(path)
    >>> again(fg.ones(7, 3)).shape, sorted(again.state_dict())
    (torch.Size([7, 2]), ['bias', 'weight'])
    """
    try:
        return _loaded(_content(path))
    except (OSError, ExportError):
        raise
    except Exception as error:
        raise ExportError(f"export.load: {path} is no .fgx file that can be read: {error}") from error


def facts(path: str | os.PathLike[str]) -> dict[str, str]:
    """What stands in a file, as `fusegrad inspect` says it. Raises ExportError where it cannot be read."""
    content = _content(path)
    shapes = {name: f"{t.dtype} {list(t.shape)}" for name, t in content["tensors"].items()}
    return {
        "kind": f"graph of {content['name']}, version {content['fusegrad.export']}",
        "sizes": ", ".join(content["sizes"]) or "closed",
        "tensors": ", ".join(f"{' '.join(content['names'][k]) or k}: {v}" for k, v in shapes.items()),
        "graph": f"\n{content['graph']}",
    }


def _content(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        content = load_data(os.fspath(path))
        if isinstance(content, dict) and content.get("fusegrad.export") == VERSION:
            return content
        why = "it holds something else, or is of another version"
    except OSError:
        raise
    except Exception as error:
        why = str(error)
    raise ExportError(f"export.load: {path} is no .fgx file that can be read: {why}")


def _loaded(content: Mapping[str, Any]) -> Exported:
    text = content["graph"]
    if len(text) > _LARGEST_TEXT:
        raise ValueError("its graph is too long")
    names = list(content["sizes"])
    # At these sizes the graph was written; others come in at calls.
    sizes = Sizes([2 + 3 * number for number in range(len(names))])
    graph = check(parse_graph(text, dict(zip(names, sizes.dims, strict=True))))
    values = {value.name: value for value in graph.inputs}
    tensors = {values[name]: tensor for name, tensor in content["tensors"].items()}
    return Exported(
        content["name"],
        graph,
        (sizes, [Place(name, *map(int, place)) for name, place in content["sizes"].items()]),
        (_part(content["arguments"]), _part(content["result"])),
        {value: (content["names"][value.name], tensor) for value, tensor in tensors.items()},
        [values[name] for name in content["trained"]],
    )


# What is written of a program.


def _text(program: Program) -> str:
    """The graph, with open sizes in the user's names."""
    try:
        text = print_graph(program.graph)
    except TypeError as error:
        raise ExportError(f"export: {program.name}: {error}") from error
    known = program.open
    if known is None:
        return text
    names = dict(zip(known.sizes.names, known.names, strict=True))

    def named(found: re.Match[str]) -> str:
        code = re.sub(r"[A-Za-z_]\w*", lambda word: f"size.{names[word[0]]}", found[1])
        return code[1:-1] if code.startswith("(size.") and code[6:-1].isidentifier() else code

    return _OPEN_SIZE.sub(
        lambda found: named(found) if any(name in found[1] for name in names) else found[0], text
    )


def _places(program: Program) -> dict[str, tuple[int, int, int, int]]:
    """For each open size the number of the argument, and the axis of it, that tell it; the least and the
    largest one.
    """
    known, inputs = program.open, {value: number for number, value in enumerate(program.arguments)}
    if known is None:
        return {}
    rows = zip(known.names, known.places, known.ranges, strict=True)
    return {name: (inputs[value], axis, *most) for name, (value, axis), most in rows}


def _argument(leaf: Any, program: Program) -> dict[str, Any]:
    if isinstance(leaf, Tensor):
        return {"tensor": True}
    if type(leaf) not in _PLAIN:
        raise ExportError(
            f"export: {program.name} was called with an object of type {type(leaf).__name__}; a .fgx file "
            "says again how it is called: give tensors, numbers, strings, and lists, tuples and dicts of them"
        )
    return {"plain": leaf}


def _described(structure: Structure, leaves: list[dict[str, Any]]) -> dict[str, Any]:
    """A container as dicts and lists, with what is said of its leaves."""
    rest = iter(leaves)

    def described(key: Any) -> dict[str, Any]:
        if key is None:
            return next(rest)
        kind, tag, parts = key
        if kind not in (list, tuple, dict):
            raise ExportError(
                f"export: a {kind.__name__} in the arguments or the result; a .fgx file has lists, tuples "
                "and dicts"
            )
        keys = [key for _, key in tag or ()]
        if any(type(key) not in (str, int) for key in keys):
            raise ExportError(f"export: a dict with the keys {keys}; a .fgx file has strings and integers")
        return {"kind": kind.__name__, "keys": keys, "parts": [described(part) for part in parts]}

    return described(structure.key)


def _part(said: Mapping[str, Any]) -> Part:
    """What `_described` has written, read again."""
    kinds = {"list": list, "tuple": tuple, "dict": dict}
    if "kind" not in said:
        return Part(None, (), (), dict(said))
    return Part(kinds[said["kind"]], tuple(said["keys"]), tuple(_part(p) for p in said["parts"]), {})


def _compare(program: Program, loaded: Module) -> None:
    """Raises ExportError unless the loaded file gives eager's results for the arguments of a program."""
    args, kwargs = program.call.build(iter(program.leaves))
    leaves: list[Any] = []
    try:
        with no_grad():
            flatten(loaded(*args, **kwargs), leaves)
    except TypeError as error:
        raise ExportError(f"export: {error}") from error
    found = [leaf for leaf, there in zip(leaves, program.present, strict=True) if there]
    for number, (ours, expected) in enumerate(zip(found, program.expected, strict=True)):
        if isinstance(ours, Tensor):
            differs = difference(ours.array, expected)
        else:
            differs = None if repr(ours) == repr(expected) else f"{ours!r}, not {expected!r}"
        if differs:
            raise ExportError(f"export: result {number} of the file differs from eager's: {differs}")
