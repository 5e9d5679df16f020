"""The command line: `fusegrad compare|explain|export|run|cache|inspect|bench|version`.

A function is named `path.py:function`. Its arguments are found, in this order: from `--shapes`;
`FUNCTION_args` or `example_args` in its file, a tuple or a function that makes one.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

PEERS = {"torch": "torch", "torch.compile": "torch", "jax": "jax"}  # peer: suffix of its function

ARGUMENTS = """\
how arguments are found:
  --shapes 32x784,784x10    random tensors of these shapes (`scalar` for none)
  FUNCTION_args             in the file: a tuple, or a function without parameters that makes one
  example_args              the same, for any function of the file

peers: where the file has FUNCTION_torch or FUNCTION_jax, and torch or JAX is installed, `compare`
gives them columns.
"""


class UsageError(Exception):
    """What the user gave does not do; printed as one line, exit code 2."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code: 0 done, 1 failed, 2 wrong usage.

    >>> main(["version"])  # doctest: +ELLIPSIS
    fusegrad ...
    0
    """
    options = parser().parse_args(arguments)
    try:
        return options.run(options) or 0
    except UsageError as error:
        print(f"fusegrad {options.command}: error: {error}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        from fusegrad.tracer.export.files import ExportError

        if not isinstance(error, ExportError):
            raise
        # The user's line, which these errors end with, is ours here.
        message = str(error).split(f"\n  at {__file__}:")[0]
        print(f"fusegrad {options.command}: error: {message}", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    """The options of all commands."""
    top = argparse.ArgumentParser(prog="fusegrad", description="Compare, explain and export functions.")
    commands = top.add_subparsers(dest="command", required=True, metavar="command")

    def command(name: str, run: Callable[[argparse.Namespace], None], text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=None if name == "version" else ARGUMENTS,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        added.set_defaults(run=run)
        if name != "version":
            added.add_argument("function", help="the function, as path.py:function")
        return added

    compare = command("compare", run_compare, "time a function eagerly and compiled, and beside its peers")
    compare.add_argument("--plot", metavar="FILE", help="save a bar chart there (.png, .svg or .pdf)")
    compare.add_argument("--json", metavar="FILE", help="save all figures there")
    compare.add_argument(
        "--repeat", type=int, metavar="N", help="samples of each call (default: as many as fit)"
    )
    compare.add_argument("--no-peers", action="store_true", help="leave torch and JAX out")
    compare.add_argument("--torch-compile", action="store_true", help="give torch.compile a column too")
    explain = command("explain", run_explain, "show what a function compiles to and what guards it")
    explain.add_argument("--kernels", action="store_true", help="print the loop kernels too")
    export = command("export", run_export, "write what a function computes to a file")
    export.add_argument("path", help="the file; .py, .onnx, .dot, .html, .fgx, .so or .o")
    for added in (compare, explain, export):
        added.add_argument("--shapes", metavar="SHAPES", help="shapes of random arguments: 32x784,784x10")
        added.add_argument("--dtype", default="float32", help="their dtype (default: float32)")
    command("version", run_version, "print the version")
    cache = commands.add_parser("cache", help="show, clear or hand on what is kept between processes")
    whats = cache.add_subparsers(dest="what", required=True, metavar="what")
    whats.add_parser("info", help="show where it is and how full")
    whats.add_parser("clear", help="empty it")
    whats.add_parser("pack", help="write all entries to a file").add_argument("path", metavar="FILE")
    load = whats.add_parser("load", help="take the entries of such a file in")
    load.add_argument("path", metavar="FILE")
    load.add_argument("--trust", action="store_true", help="though it comes from elsewhere: its code is run")
    cache.set_defaults(run=run_cache)
    inspect = commands.add_parser("inspect", help="show what is in a file that fusegrad wrote")
    inspect.add_argument("path", help="an entry of the cache, a library, an object or a .fgx file")
    inspect.set_defaults(run=run_inspect)
    run = commands.add_parser(
        "run",
        help="run a script as several processes, which MPI connects (docs/clusters.md)",
        description="Run a script as several processes, which MPI connects.",
    )
    run.add_argument("--nproc-per-node", "--nproc_per_node", type=int, default=1, metavar="N")
    run.add_argument(
        "--nnodes", type=int, default=1, metavar="N", help="machines, with so many processes each"
    )
    run.add_argument(
        "--mpiexec", default="", metavar="OPTIONS", help="options for mpiexec: '-hosts a,b -ppn 2'"
    )
    run.add_argument("--standalone", action="store_true", help="nothing: every run is")
    run.add_argument("-m", "--module", action="store_true", help="the script is a module's name")
    run.add_argument("script")
    run.add_argument("arguments", nargs=argparse.REMAINDER)
    run.set_defaults(run=run_ranks)
    # The suite has a parser of its own: to this one, its options are no options.
    bench = commands.add_parser(
        "bench",
        help="run the benchmark suite beside torch and JAX (`fusegrad bench --help`)",
        prefix_chars="\0",
        add_help=False,
    )
    bench.add_argument("arguments", nargs="*")
    bench.set_defaults(run=run_bench)
    return top


# The commands.


def run_compare(options: argparse.Namespace) -> None:
    """`fusegrad compare`."""
    if options.repeat is not None and options.repeat < 1:
        raise UsageError("--repeat must be at least 1")
    module, name, function, args = found(options)
    import fusegrad

    if options.json is not None:
        from fusegrad.tracer.export.files import check_target

        check_target(options.json, "compare")
    comparison = fusegrad.compare(
        function, *args, peers=peers_of(module, name, options), plot=options.plot, repeat=options.repeat
    )
    if options.json is not None:
        comparison.save_json(options.json)
    for path in filter(None, (options.plot, options.json)):
        print(f"wrote {path}")


def run_explain(options: argparse.Namespace) -> None:
    """`fusegrad explain`: run it three times under a fresh jit, then tell."""
    _, _, function, args = found(options)
    from fusegrad.compiler.compare.contenders import Case, gradients_call, plain
    from fusegrad.compiler.jit import jit

    case = Case(function, args, {})
    compiled = jit(plain(function))
    call = gradients_call(case, compiled) if case.leaves else lambda: compiled(*args)
    for _ in range(3):
        call()
    print(compiled.explain())
    if options.kernels:
        kernels = compiled.kernels()
        for kernel in (*kernels.forward, *kernels.backward):
            print(f"\n{kernel.kernel.text}")


def run_export(options: argparse.Namespace) -> None:
    """`fusegrad export`."""
    _, _, function, args = found(options)
    import fusegrad

    fusegrad.export(function, args, options.path)
    print(f"wrote {options.path}")


def run_cache(options: argparse.Namespace) -> None:
    """`fusegrad cache`."""
    from fusegrad.compiler.artefacts import folder, packs

    place = folder.place() or "nowhere"
    try:
        if options.what == "clear":
            print(f"took {folder.clear()} entries away from {place}")
        elif options.what == "pack":
            print(f"wrote {packs.pack(options.path)} entries of {place} to {options.path}")
        elif options.what == "load":
            print(f"took {packs.load(options.path, options.trust)} entries of {options.path} into {place}")
        else:
            _tell_of_cache()
    except (OSError, folder.Unusable) as error:
        raise UsageError(str(error)) from error
    except packs.Refused as error:
        raise UsageError(f"{options.path} is not taken in: {error}") from error


def _tell_of_cache() -> None:
    from fusegrad.compiler.artefacts import folder

    found = folder.state()
    print(f"folder   {found.path or 'none'}")
    print(f"used     {f'no: {found.why_not}' if found.why_not else 'yes'}")
    print(f"entries  {found.entries}, by {found.keys} keys")
    print(f"bytes    {found.size:,} of at most {found.most:,}")


def run_inspect(options: argparse.Namespace) -> None:
    """`fusegrad inspect`."""
    from fusegrad.compiler.artefacts import folder, form
    from fusegrad.tracer.export.graph_file import facts

    if options.path.endswith(".fgx"):
        try:
            print("\n".join(f"{name:8} {fact}" for name, fact in facts(options.path).items()))
        except OSError as error:
            raise UsageError(f"{options.path}: {error}") from error
        return
    try:
        data = Path(options.path).read_bytes()
        is_entry = folder.content(data).startswith(form.MAGIC)
        artefact = form.unpacked(folder.content(data)) if is_entry else form.embedded(data)
    except (OSError, form.Malformed) as error:
        raise UsageError(f"{options.path}: {error}") from error
    print(f"kind     {artefact.kind}")
    for number, capture in enumerate(artefact.facts.get("captures", ())):
        print(f"run {number}    of {len(capture['reads'])} reads of {len(capture['facts'])} objects")
        print(capture["graph"])
    for name, fact in sorted(artefact.facts.items()):
        if name == "captures":
            continue
        print(f"{name:8} {', '.join(map(str, fact)) if isinstance(fact, list) else fact}")
    for name, part in artefact.parts.items():
        print(f"part     {name}, {len(part):,} bytes")
        if name == "graph":
            print(part.decode())


def run_bench(options: argparse.Namespace) -> int:
    """`fusegrad bench`: the suite of the repository that this package was installed from."""
    suite = Path(__file__).resolve().parent.parent / "benchmarks" / "suite.py"
    if not suite.is_file():
        raise UsageError("the benchmarks are in fusegrad's repository, not in the package; run it there")
    return subprocess.run([sys.executable, str(suite), *options.arguments]).returncode


def run_ranks(options: argparse.Namespace) -> int:
    """`fusegrad run`: the exit status of the rank that failed first, which is named."""
    from fusegrad.eager.ranks.launch import run

    if options.nproc_per_node < 1 or options.nnodes < 1:
        raise UsageError("--nproc-per-node and --nnodes must be at least 1")
    if not options.module and not os.path.isfile(options.script):
        raise UsageError(f"there is no file {options.script}")
    script = ["-m", options.script] if options.module else [options.script]
    status, end = run(
        [*script, *options.arguments], options.nproc_per_node, options.nnodes, shlex.split(options.mpiexec)
    )
    if end is not None:
        print(f"fusegrad run: {end}", file=sys.stderr)
    return status


def run_version(options: argparse.Namespace) -> None:
    """`fusegrad version`."""
    import fusegrad

    print(f"fusegrad {fusegrad.__version__}")


# Finding what the user named.


def found(options: argparse.Namespace) -> tuple[ModuleType, str, Any, tuple[Any, ...]]:
    """The module, the function's name, the function and its arguments. Raises UsageError."""
    path, colon, name = options.function.rpartition(":")
    if not colon or not name:
        raise UsageError(f"{options.function!r} is not of the form path.py:function")
    module = loaded(path)
    function: Any = module
    for part in name.split("."):
        function = getattr(function, part, None)
    if not callable(function):
        known = [n for n, value in vars(module).items() if _is_own(module, value)]
        raise UsageError(f"{path} has no function {name!r}; it has: {', '.join(known) or 'none'}")
    if options.shapes is not None:
        return module, name, function, random_arguments(options.shapes, options.dtype)
    for source in (f"{name}_args", "example_args"):
        if hasattr(module, source):
            args = getattr(module, source)
            args = args() if callable(args) else args
            return module, name, function, tuple(args) if isinstance(args, (tuple, list)) else (args,)
    raise UsageError(
        f"no arguments for {name}: define {name}_args or example_args in {path}, or give --shapes"
    )


def _is_own(module: ModuleType, value: Any) -> bool:
    """Whether a module's value is a function of its own file."""
    return callable(value) and getattr(value, "__module__", None) == module.__name__


def loaded(path: str) -> ModuleType:
    """The module in the file at `path`, run with its folder on `sys.path` as a script's would be."""
    if not os.path.isfile(path):
        raise UsageError(f"there is no file {path}")
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def random_arguments(shapes: str, dtype: str) -> tuple[Any, ...]:
    """Tensors of normal numbers (whole ones from 0 to 9 for an integer dtype); gradients for floats."""
    import fusegrad

    kind = getattr(fusegrad, dtype, None)
    if not isinstance(kind, fusegrad.dtype):
        raise UsageError(f"there is no dtype {dtype!r}")
    fusegrad.manual_seed(0)
    tensors = []
    for text in shapes.split(","):
        parts = [] if text in ("", "scalar") else text.split("x")
        if not all(p.isdigit() for p in parts):
            raise UsageError(f"{text!r} is no shape; write 32x784")
        shape = [int(p) for p in parts]
        if kind.is_floating_point:
            tensors.append(fusegrad.randn(shape, dtype=kind, requires_grad=True))
        else:
            tensors.append(fusegrad.randint(0, 10, shape).to(kind))
    return tuple(tensors)


def peers_of(module: ModuleType, name: str, options: argparse.Namespace) -> dict[str, Callable[..., Any]]:
    """The peers of a function that its file defines."""
    if options.no_peers:
        return {}
    names = [p for p in PEERS if p != "torch.compile" or options.torch_compile]
    functions = {p: getattr(module, f"{name}_{PEERS[p]}", None) for p in names}
    return {peer: function for peer, function in functions.items() if callable(function)}
