"""`python -m fusegrad.torch script.py args...`: runs a PyTorch script with fusegrad in torch's place.

So does `-m module args...` a module, and `-c code args...` a line of code, as `python` has them.
"""

from __future__ import annotations

import atexit
import builtins
import io
import os
import runpy
import sys
from collections.abc import Callable
from importlib.machinery import BuiltinImporter, SourceFileLoader
from types import CodeType, ModuleType, TracebackType
from typing import Any

from fusegrad.torch import asked, put_in_place

USAGE = "usage: python -m fusegrad.torch (script.py | -m module | -c code) [arguments of the program]"
OWN_FILES = (__file__, runpy.__file__, "<frozen runpy>")


def main() -> None:
    """Run the script, module or code that the command line names as `python` does."""
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(USAGE, file=sys.stdout if len(sys.argv) > 1 else sys.stderr)
        sys.exit(0 if len(sys.argv) > 1 else 2)
    path = sys.argv[1]
    if path in ("-m", "-c"):
        if len(sys.argv) < 3:
            print(f"python -m fusegrad.torch: what is to be run? {path} has no argument", file=sys.stderr)
            sys.exit(2)
        run(run_module if path == "-m" else run_code)
        return
    if not os.path.isfile(path):
        print(f"python -m fusegrad.torch: there is no file {path}", file=sys.stderr)
        sys.exit(2)
    run(run_script)


def run(program: Callable[[], None]) -> None:
    """Run it with fusegrad in torch's place, and say at the end what was asked for in vain."""
    put_in_place()
    atexit.register(tell)  # what is registered first runs last, after all that the program does at its end
    try:
        program()
    except BaseException as error:
        asked.note_error(error)
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename in OWN_FILES:
            trace = trace.tb_next
        show_from(trace)
        raise


def new_main(**names: Any) -> ModuleType:
    """An empty module that is the main one."""
    main = sys.modules["__main__"] = ModuleType("__main__")
    vars(main).update(__annotations__={}, __builtins__=builtins, **names)
    return main


def run_script() -> None:
    """What `python script.py` does."""
    path = os.path.abspath(sys.argv[1])
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(path)
    loader = SourceFileLoader("__main__", path)
    script = new_main(__cached__=None, __file__=path, __loader__=loader)
    exec(compiled(path), vars(script))


def run_module() -> None:
    """What `python -m module` does: by what Python itself calls for that."""
    name, sys.argv = sys.argv[2], sys.argv[2:]
    new_main()
    runpy._run_module_as_main(name)  # type: ignore[attr-defined]


def run_code() -> None:
    """What `python -c code` does."""
    code, sys.argv = sys.argv[2], ["-c", *sys.argv[3:]]
    sys.path[0] = ""
    exec(compile(code, "<string>", "exec", dont_inherit=True), vars(new_main(__loader__=BuiltinImporter)))


def compiled(path: str) -> CodeType:
    """The code of the script."""
    with io.open_code(path) as file:
        return compile(file.read(), path, "exec", dont_inherit=True)


def show_from(trace: TracebackType | None) -> None:
    """Have the error that ends this process shown as the script's: without the frames that led to it."""
    hook = sys.excepthook
    sys.excepthook = lambda kind, error, _: hook(kind, error.with_traceback(trace), trace)


def tell() -> None:
    """Say on standard error what was asked for in vain."""
    if found := asked.report():
        sys.stdout.flush()
        print(found, file=sys.stderr)


main()
