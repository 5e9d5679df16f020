"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from collections.abc import Iterator as _Iterator, Sequence as _Sequence

from fusegrad.eager.ops.nn.attention import SDPBackend as SDPBackend, SDPBackend as _SDPBackend

def sdpa_kernel(
    backends: _SDPBackend | _Sequence[_SDPBackend], set_priority: bool = False
) -> _Iterator[None]: ...
