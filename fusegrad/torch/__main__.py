"""`python -m fusegrad.torch script.py args...`: runs a PyTorch script with fusegrad in torch's place."""

from __future__ import annotations

import atexit
import builtins
import io
import os
import sys
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType, TracebackType

from fusegrad.torch import asked, put_in_place

USAGE = "usage: python -m fusegrad.torch script.py [arguments of the script]"


def main() -> None:
    """Run the script that the command line names as `python script.py` does."""
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(USAGE, file=sys.stdout if len(sys.argv) > 1 else sys.stderr)
        sys.exit(0 if len(sys.argv) > 1 else 2)
    path = sys.argv[1]
    if not os.path.isfile(path):
        print(f"python -m fusegrad.torch: there is no file {path}", file=sys.stderr)
        sys.exit(2)
    put_in_place()
    atexit.register(tell)  # what is registered first runs last, after all that the script does at its end
    sys.argv, path = sys.argv[1:], os.path.abspath(path)
    sys.path[0] = os.path.dirname(path)
    script = ModuleType("__main__")
    loader = SourceFileLoader("__main__", path)
    vars(script).update(
        __annotations__={}, __builtins__=builtins, __cached__=None, __file__=path, __loader__=loader
    )
    sys.modules["__main__"] = script
    try:
        exec(compiled(path), vars(script))
    except BaseException as error:
        asked.note_error(error)
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        show_from(trace)
        raise


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
