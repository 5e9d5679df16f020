"""Random numbers that a run draws: a replay draws them from the same generator, in the same order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fusegrad.eager.core.families import Random
from fusegrad.eager.core.op import Op, Params, evaluate, explaining
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.observe.hosts import Draw

if TYPE_CHECKING:
    from fusegrad.tracer.record.recorder import Recorder


def draw(recorder: Recorder, op: Op, args: tuple[Any, ...], params: Params) -> Any:
    """What an op of the run draws; the second run of a checkpointed function gets what the first one drew."""
    depends = any(isinstance(a, Tensor) for a in args)
    if depends and isinstance(op, Random) and op.by_ops is not None:
        return explaining(op, args, params, op.by_ops)
    again = recorder.calls_again.draw(params["generator"])
    if again is not None:
        return again
    recorder.later.settle()
    result = evaluate(op, args, params)
    if depends:
        recorder.effect(f"draws random numbers that depend on a tensor ({op.name})")
    recorder.change(f"draws random numbers ({op.name})")
    recorder.host(result, op.name, lambda value: Draw(value, op, args, dict(params)))
    recorder.calls_again.drawn(result, params["generator"])
    return result
