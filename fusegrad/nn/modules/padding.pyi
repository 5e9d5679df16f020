"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from typing import Any as _Any

from fusegrad.eager.nn.resampling import _Pad as _Pad

class CircularPad1d(_Pad):
    def __init__(self, padding: _Any) -> None: ...

class CircularPad2d(_Pad):
    def __init__(self, padding: _Any) -> None: ...

class CircularPad3d(_Pad):
    def __init__(self, padding: _Any) -> None: ...

class ConstantPad1d(_Pad):
    def __init__(self, padding: _Any, value: _Any) -> None: ...

class ConstantPad2d(_Pad):
    def __init__(self, padding: _Any, value: _Any) -> None: ...

class ConstantPad3d(_Pad):
    def __init__(self, padding: _Any, value: _Any) -> None: ...

class ReflectionPad1d(_Pad):
    def __init__(self, padding: _Any) -> None: ...

class ReflectionPad2d(_Pad):
    def __init__(self, padding: _Any) -> None: ...

class ReflectionPad3d(_Pad):
    def __init__(self, padding: _Any) -> None: ...

class ReplicationPad1d(_Pad):
    def __init__(self, padding: _Any) -> None: ...

class ReplicationPad2d(_Pad):
    def __init__(self, padding: _Any) -> None: ...

class ReplicationPad3d(_Pad):
    def __init__(self, padding: _Any) -> None: ...

class ZeroPad1d(_Pad):
    def __init__(self, padding: _Any) -> None: ...

class ZeroPad2d(_Pad):
    def __init__(self, padding: _Any) -> None: ...

class ZeroPad3d(_Pad):
    def __init__(self, padding: _Any) -> None: ...
