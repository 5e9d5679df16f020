"""What to change so that a function stays on the fast way: a short advice for each kind of reason."""

from __future__ import annotations

import re

from fusegrad.compiler.explain.miss_reasons import Difference

# For each kind of reason the words of `Reason.reason` that it is known by, and the advice. The first that
# fits is taken. The kinds are part of what `Explanation.as_dict` promises.
_REASONS: list[tuple[str, str, str]] = [
    ("prints", r"^prints|print", "print outside the function, or what it returns"),
    ("logs", r"[Ll]ogger|`logging`|`warn`", "log outside the function, or what it returns"),
    ("clock", r"`time`|`datetime`|clock", "read the clock outside and pass the number as an argument"),
    (
        "random",
        r"Random,|`random`|seeds the random|cython_function|Generator, which|`numpy.random`",
        "draw with fusegrad's own generator (`fg.rand`, `fg.randn`), which is captured, or pass the number",
    ),
    ("file", r"opens a file|TextIOWrapper|reads a file", "read and write files outside the function"),
    (
        "values",
        r"leave through|formats a tensor|looks at values to go on",
        "keep the computation in tensor ops; read values (`tolist`, `numpy`, f-strings) outside the function",
    ),
    (
        "numpy",
        r"NumPy array|ndarray|looks into a view",
        "that is not known to be repeatable: make a tensor of it (`fg.from_numpy(a)`), and compute with that",
    ),
    (
        "long",
        r"to record$",
        "jit a smaller part, such as the body of a loop, or let calls wait longer (`fg.set_compile_budget`)",
    ),
    ("iterator", r"iterator", "take the next item outside and pass it as an argument"),
    (
        "writes outside",
        r"that lives outside the function|of an object that lives outside|rebinds the (global|nonlocal)"
        r"|that is part of the arguments|may add a key|hook on a tensor|sets `.*` of a (tensor|function)",
        "return the new value and let the caller keep it",
    ),
    (
        "memory",
        r"returns a view|views of one memory|tensors of one memory|also the .grad of another",
        "a result that shares memory cannot be made anew: return `.clone()` of it",
    ),
    (
        "result",
        r"^returns",
        "return tensors and numbers, in containers that the function itself makes",
    ),
    (
        "cannot be followed",
        r"cannot be followed|defines a class",
        "move that part out of the function (imports, globals that are rebound, code without Python source)",
    ),
    (
        "modes",
        r"default dtype|seeds|changes requires_grad|takes a tensor off|replaces a tensor|resizes",
        "do this outside the function",
    ),
    (
        "derived by code",
        r"derived by",
        "derive it inside, by `backward()` or `autograd.grad` in the function: the backward is captured, too",
    ),
    (
        "gradients",
        r"backward|\.grad|optimizer|step\(\)|first step|on the graph",
        "keep what stands in the way outside: the forward alone is captured, and its backward with it",
    ),
    ("hooks", r"hook", "take the hook off, or leave this call eager"),
    ("exception", r"catches an exception", "test the condition with `if` instead of catching what it raises"),
    (
        "unknown code",
        r"not known|unknown origin|code of its own|computed by|metaclass|descriptor|`__\w+__` of a"
        r"|calls `\w+` of `\w+`|computed once",
        "what this does cannot be seen from here: call it outside and pass its result",
    ),
]
_OTHER = ("other", "leave that line out of the function, if its speed matters")


def for_reason(reason: str) -> tuple[str, str]:
    """The kind of a reason why a run could not be captured, and what to do about it."""
    for kind, pattern, advice in _REASONS:
        if re.search(pattern, reason):
            return kind, advice
    return _OTHER


_ASPECTS = {
    "shape": "sizes that vary are inputs, but the body runs; a few sizes, to which others are padded, replay",
    "dtype": "convert it once, outside (`x.to(dtype)`)",
    "strides": "pass it in one layout (`x.contiguous()`)",
    "requires_grad": "nothing to do: both are kept",
    "class": "pass the same class of tensor each time",
    "sharing": "nothing to do: both are kept",
    "inference": "make inputs in one mode",
    "type": "pass the same type each time",
    "object": "pass the same object each time, or only the tensors and numbers of it that are used",
}
_NUMBER = r"^-?(\d|inf|nan)"


def for_difference(difference: Difference) -> str:
    """What to do about something that is other than it was; empty where nothing helps."""
    kind, now = difference.kind, difference.now
    number = bool(re.match(_NUMBER, now) and re.match(_NUMBER, difference.was))
    if kind == "argument" and difference.aspect == "value":
        if number:
            return "numbers that vary are inputs; the body runs where Python has to know them"
        return "each value has code of its own; that is fine for a few"
    if kind == "argument":
        return _ASPECTS.get(difference.aspect, "")
    if difference.aspect == "shape":
        return _ASPECTS["shape"]
    if kind == "structure":
        return "nest the arguments in the same way each time"
    if kind == "mode":
        return "nothing to do: both are kept"
    if kind in ("branch", "number"):
        if now in ("True", "False"):
            return "nothing to do: both sides are kept, once they have been met"
        return "each value is a path: keep the number in a tensor, or ask less of it (`if n > 3`)"
    if number:
        return "it is an input once it has been two others, unless Python has to know it (a size, a key)"
    if now.startswith("another ") or difference.was.endswith("that is gone"):
        return "make the object once, outside, and keep it: it is known by its identity"
    if kind in ("length", "contents", "item"):
        return "a container that keeps changing is better passed as an argument"
    if kind == "function":
        return "define the function once, outside"
    if now == "gone":
        return "keep the object alive: what was compiled with it is of no use without it"
    return ""
