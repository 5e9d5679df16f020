"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from collections.abc import Iterator as _Iterator

from fusegrad.eager.nn.utils.parametrize import (
    ParametrizationList as ParametrizationList,
    is_parametrized as is_parametrized,
    register_parametrization as register_parametrization,
    remove_parametrizations as remove_parametrizations,
    transfer_parametrizations_and_params as transfer_parametrizations_and_params,
    type_before_parametrizations as type_before_parametrizations,
)

def cached() -> _Iterator[None]: ...
