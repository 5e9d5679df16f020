"""What processes that tests start run: functions that they can import."""

from __future__ import annotations

import os
import signal

import fusegrad as fg


def add_one(index, tensor):
    """Write into a tensor of another process's."""
    tensor[index] += 1


def train(index, model):
    """A step of training on a model that several processes have."""
    optimizer = fg.optim.SGD(model.parameters(), lr=0.1)
    model(fg.ones(4, 2)).sum().backward()
    optimizer.step()


def put(queue, tensor):
    """Send a tensor on."""
    queue.put(tensor)


def fail(index, how):
    """End as it is said."""
    if how == "raise":
        raise ValueError(f"process {index} has had enough")
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), signal.SIGKILL)
