"""A module that ranks train together, each on data of its own, as
`torch.nn.parallel.DistributedDataParallel`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import is_grad_enabled
from fusegrad.eager.distributed.world import ProcessGroup, known
from fusegrad.eager.nn.module import Module
from fusegrad.eager.ranks.joined import Rounds
from fusegrad.eager.ranks.reducer import Reducer
from fusegrad.eager.ranks.same import check_alike, give_all

__all__ = ["DistributedDataParallel"]
_FIRST_BUCKET, _MEGABYTE = 1 << 20, 1 << 20


class DistributedDataParallel(Module):
    """`module`, whose gradients are the means of those of all ranks. Source: `torch.nn.parallel`.

    It begins with the parameters and buffers of the first rank, and has its buffers again before each forward
    (forward_sync_buffers, or broadcast_buffers). bucket_cap_mb: how much of the gradients goes at once.
    find_unused_parameters, static_graph: forward need not use all parameters.

    Raises ValueError where there is no process group, RuntimeError for a module without anything to train,
    where ranks have other parameters, and for devices that are not there.

    >>> import fusegrad as fg
    >>> fg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> model = fg.nn.parallel.DistributedDataParallel(fg.nn.Linear(2, 1))
    >>> list(model.state_dict()), model(fg.ones(3, 2)).shape
    (['module.weight', 'module.bias'], torch.Size([3, 1]))
    >>> fg.distributed.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: Any = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__()
        self.process_group: ProcessGroup = known(process_group)
        trained = [p for p in module.parameters() if p.requires_grad]
        if not trained:
            raise failure(
                RuntimeError,
                "DistributedDataParallel is not needed when a module doesn't have any parameter that "
                "requires a gradient.",
            )
        if device_ids:
            raise failure(
                RuntimeError, f"DistributedDataParallel: device_ids {device_ids}: the CPU is the only device"
            )
        self.module, self.dim, self.device_ids, self.output_device = module, dim, None, None
        said = [value for value in (forward_sync_buffers, broadcast_buffers) if value is not None]
        self.broadcast_buffers, self.find_unused_parameters = all(said), find_unused_parameters
        self.gradient_as_bucket_view, self.static_graph = gradient_as_bucket_view, static_graph
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self._reducer: Reducer | None = None
        self._rounds: Rounds | None = None
        group = self.process_group
        if group.size() > 1:
            if init_sync:
                check_alike(group.channel, group.timeout, module.named_parameters())
                give_all(group.channel, group.timeout, [*module.parameters(), *module.buffers()], 0)
            most = 25 * _MEGABYTE if bucket_cap_mb is None else bucket_cap_mb * _MEGABYTE
            sizes = (_FIRST_BUCKET if bucket_cap_mb is None else most, most)
            self._reducer = Reducer(
                trained, group.channel, group.timeout, sizes, find_unused_parameters or static_graph
            )

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if self._reducer is None:
            return self.module(*inputs, **kwargs)
        group, buffers = self.process_group, [*self.module.buffers()]
        averages = is_grad_enabled() and self.require_backward_grad_sync
        gives = self.broadcast_buffers and self.require_forward_param_sync and bool(buffers)
        active = [*range(group.size())]
        divisor = group.size()
        if self._rounds is not None:
            active = self._rounds.begin(gives, averages)
            divisor = divisor if self._rounds.by_all else len(active)
        if gives:
            give_all(group.channel, group.timeout, buffers, 0 if self._rounds is None else active[-1])
        made = self.module(*inputs, **kwargs)
        if averages:
            self._reducer.expect(made, divisor)
        else:
            self._reducer.rest()
        self.require_forward_param_sync = averages
        return made

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of forwards in it stay with their rank, and add up there."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextmanager
    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Iterator[None]:
        """Ranks may have different numbers of batches in it.

        Those that are through add nothing to the means of the others, which are divided by the number of all
        ranks, or of those that go on (divide_by_initial_world_size=False). In the end all have the
        parameters of one that had the most. throw_on_early_termination: an error of all ranks when the first
        is through.
        """
        if not enable or self._reducer is None:
            yield
            return
        group = self.process_group
        rounds = Rounds(
            group.channel, group.timeout, divide_by_initial_world_size, throw_on_early_termination
        )
        self._rounds = rounds
        try:
            yield
            while (others := rounds.end()) is not None:
                if others.gives:
                    give_all(group.channel, group.timeout, [*self.module.buffers()], others.active[-1])
                if others.averages:
                    self._reducer.shadow()
            last = rounds.last_active[-1]
            give_all(group.channel, group.timeout, [*self.module.parameters(), *self.module.buffers()], last)
        finally:
            self._rounds = None

    def register_comm_hook(self, state: Any, hook: Callable[..., Any]) -> None:
        """Raises NotImplementedError: MPI sends the gradients as they are."""
        raise failure(
            NotImplementedError, "register_comm_hook: MPI sends gradients as they are; leave it out"
        )


locate("fusegrad.nn.parallel", globals(), __all__)
