"""What ranks do together with objects, which go to others pickled. As in `torch.distributed`."""

from __future__ import annotations

import pickle
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.public import locate
from fusegrad.eager.distributed.world import ProcessGroup, is_outside, known, of_all
from fusegrad.eager.ranks import transfers

__all__ = [
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
]


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Put copies of the objects of all ranks into the list. Source: `torch.distributed.all_gather_object`."""
    chosen = known(group)
    if not is_outside(chosen):
        places = of_all("all_gather_object", chosen, object_list)
        places[:] = _objects_of_all("all_gather_object", chosen, obj)


def _objects_of_all(name: str, group: ProcessGroup, obj: Any) -> list[Any]:
    mine = pickle.dumps(obj)
    found = (
        [mine] if group.size() == 1 else transfers.objects_of_all(group.channel, group.timeout, name, mine)
    )
    return [pickle.loads(one) for one in found]


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Put copies of the objects of all ranks into the list of one. As `torch.distributed.gather_object`."""
    chosen = known(group)
    if is_outside(chosen):
        return
    root = chosen.number("gather_object", dst, group_dst)
    places = of_all("gather_object", chosen, object_gather_list) if chosen.rank() == root else []
    found = _objects_of_all("gather_object", chosen, obj)
    places[:] = found if chosen.rank() == root else []


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    weights_only: bool | None = None,
) -> None:
    """Have copies of the objects of one rank's list in the lists of all.

    Source: `torch.distributed.broadcast_object_list`.
    """
    chosen = known(group)
    if is_outside(chosen):
        return
    root = chosen.number("broadcast_object_list", src, group_src)
    if chosen.size() == 1:
        return
    found = _objects_of_one("broadcast_object_list", chosen, object_list, root)
    if len(found) != len(object_list):
        raise failure(
            RuntimeError,
            f"broadcast_object_list: rank {chosen.ranks[root]} has a list of {len(found)}, this one of "
            f"{len(object_list)}",
        )
    if chosen.rank() != root:
        object_list[:] = found


def _objects_of_one(name: str, group: ProcessGroup, objects: Any, root: int) -> Any:
    mine = pickle.dumps(objects) if group.rank() == root else b""
    return pickle.loads(transfers.objects_of_one(group.channel, group.timeout, name, mine, root))


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Have in each rank's list, as its first, one of the objects of one rank's list.

    Source: `torch.distributed.scatter_object_list`.
    """
    chosen = known(group)
    if is_outside(chosen):
        return
    root = chosen.number("scatter_object_list", src, group_src)
    if not scatter_object_output_list:
        raise failure(
            ValueError, "scatter_object_list: the list for the object that comes has to have a place"
        )
    objects = None
    if chosen.rank() == root:
        objects = [
            pickle.dumps(one) for one in of_all("scatter_object_list", chosen, scatter_object_input_list)
        ]
    if chosen.size() > 1:
        objects = _objects_of_one("scatter_object_list", chosen, objects, root)
    assert objects is not None
    scatter_object_output_list[0] = pickle.loads(objects[chosen.rank()])


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send copies of the list's objects to a rank. Source: `torch.distributed.send_object_list`."""
    chosen = known(group)
    if not is_outside(chosen):
        to = _another("send_object_list", chosen, dst, group_dst)
        transfers.send_objects(chosen.channel, chosen.timeout, pickle.dumps(object_list), to)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    weights_only: bool | None = None,
    use_batch: bool = False,
) -> int:
    """Put what a rank, or any, sends into the list; gives its number.

    Source: `torch.distributed.recv_object_list`.
    """
    chosen = known(group)
    if is_outside(chosen):
        return -1
    given = src is not None or group_src is not None
    source = _another("recv_object_list", chosen, src, group_src) if given else None
    found, sender = transfers.receive_objects(chosen.channel, chosen.timeout, source)
    object_list[:] = pickle.loads(found)
    return chosen.ranks[sender]


def _another(name: str, group: ProcessGroup, rank: int | None, own: int | None) -> int:
    found = group.number(name, rank, own, default=None)
    if found == group.rank():
        raise failure(ValueError, f"{name}: rank {group.ranks[found]} is this one")
    return found


locate("fusegrad.distributed", globals(), __all__)
