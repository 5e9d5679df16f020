"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from typing import Any as _Any

from fusegrad.eager.nn.resampling import (
    ConstantPad1d as _ConstantPad1d,
    ConstantPad2d as _ConstantPad2d,
    ConstantPad3d as _ConstantPad3d,
    _CircularPadNd as _CircularPadNd,
    _ConstantPadNd as _ConstantPadNd,
    _ReflectionPadNd as _ReflectionPadNd,
    _ReplicationPadNd as _ReplicationPadNd,
)

class CircularPad1d(_CircularPadNd):
    def __init__(self, padding: _Any) -> None: ...

class CircularPad2d(_CircularPadNd):
    def __init__(self, padding: _Any) -> None: ...

class CircularPad3d(_CircularPadNd):
    def __init__(self, padding: _Any) -> None: ...

class ConstantPad1d(_ConstantPadNd):
    def __init__(self, padding: _Any, value: _Any) -> None: ...

class ConstantPad2d(_ConstantPadNd):
    def __init__(self, padding: _Any, value: _Any) -> None: ...

class ConstantPad3d(_ConstantPadNd):
    def __init__(self, padding: _Any, value: _Any) -> None: ...

class ReflectionPad1d(_ReflectionPadNd):
    def __init__(self, padding: _Any) -> None: ...

class ReflectionPad2d(_ReflectionPadNd):
    def __init__(self, padding: _Any) -> None: ...

class ReflectionPad3d(_ReflectionPadNd):
    def __init__(self, padding: _Any) -> None: ...

class ReplicationPad1d(_ReplicationPadNd):
    def __init__(self, padding: _Any) -> None: ...

class ReplicationPad2d(_ReplicationPadNd):
    def __init__(self, padding: _Any) -> None: ...

class ReplicationPad3d(_ReplicationPadNd):
    def __init__(self, padding: _Any) -> None: ...

class ZeroPad1d(_ConstantPad1d):
    def __init__(self, padding: _Any) -> None: ...

class ZeroPad2d(_ConstantPad2d):
    def __init__(self, padding: _Any) -> None: ...

class ZeroPad3d(_ConstantPad3d):
    def __init__(self, padding: _Any) -> None: ...
