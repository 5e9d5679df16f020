"""`torch.jit.annotations`: types that only scripts know."""

from typing import Any


class BroadcastingListCls:
    """A list that may be given as one number: `BroadcastingList2[int]` in an annotation."""

    def __getitem__(self, types: Any) -> None:
        """None: nobody reads it."""


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingListCls()
