"""Messages between processes: a head, and a content that is pickled, the memory of arrays apart.

So arrays are not copied into the pickle, and what is read from the pipe is the memory of those that are made.
"""

from __future__ import annotations

import io
import pickle
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from fusegrad.eager.core.tensor import Tensor


class _Pickler(ForkingPickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Tensor) and value.requires_grad and not value.is_leaf:
            raise RuntimeError(
                "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not "
                "support crossing process boundaries.  If you just want to transfer the data, call detach() "
                "on the tensor before serializing (e.g., putting it on the queue)."
            )
        # What is registered for tensors in shared memory would copy others.
        return value.__reduce_ex__(5) if isinstance(value, Tensor) else NotImplemented


def pack(content: Any) -> list[memoryview]:
    """The pickle of a content, and the memory of its arrays. Raises what pickling raises."""
    file, buffers = io.BytesIO(), list[pickle.PickleBuffer]()
    _Pickler(file, 5, True, buffers.append).dump(content)
    return [file.getbuffer(), *(buffer.raw() for buffer in buffers)]


def unpack(parts: list[memoryview]) -> Any:
    """The content of which `receive` gave the parts."""
    return pickle.loads(parts[0], buffers=parts[1:])


def send(connection: Connection, head: Any, parts: list[memoryview]) -> None:
    """Send a message; returns when the other side has taken all but what the pipe holds."""
    connection.send((head, [part.nbytes for part in parts]))
    for part in parts:
        if part.nbytes:
            connection.send_bytes(part)


def receive(connection: Connection) -> tuple[Any, list[memoryview]]:
    """The next message's head, and the parts of its content. EOFError if the other side has gone."""
    head, sizes = connection.recv()
    parts = [np.empty(size, np.uint8).data for size in sizes]
    for part in parts:
        if part.nbytes:
            connection.recv_bytes_into(part)
    return head, parts
