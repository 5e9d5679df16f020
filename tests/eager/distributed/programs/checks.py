"""Running the checks of a program on this rank, and leaving what became of them for the test."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

from fusegrad import distributed as dist


def run_all(namespace: dict[str, Any], timeout: float = 60.0) -> None:
    """Run the checks in their order, up to the first that fails here: ranks are no longer in step then."""
    dist.init_process_group(timeout=timeout)
    found = {}
    for name in [name for name in namespace if name.startswith("check_")]:
        try:
            namespace[name]()
            found[name] = ""
        except Exception:
            found[name] = traceback.format_exc()
            break
    Path(sys.argv[1], f"{dist.get_rank()}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


def raised(kind: type[Exception], words: str, call: Any) -> None:
    """Assert that a call raises an error with these words in it."""
    try:
        call()
    except kind as error:
        assert words in str(error), str(error)
    else:
        raise AssertionError(f"nothing was raised: {words}")
