"""`torch._utils`: how exceptions of threads and processes are handed to who waits for them."""

from __future__ import annotations

import sys
from typing import Any

from fusegrad.eager.data.worker import Caught


class ExceptionWrapper(Caught):
    """An exception, the one that is being handled if none is given, as others raise it again.

    Source: `torch._utils.ExceptionWrapper`.
    """

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        super().__init__(where, exc_info or sys.exc_info())

    @property
    def exc_type(self) -> type[BaseException]:
        """Its type."""
        return self.kind

    @property
    def exc_msg(self) -> str:
        """Its traceback."""
        return self.text
