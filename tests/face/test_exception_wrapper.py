"""`torch._utils.ExceptionWrapper` beside PyTorch's."""

import pickle

import pytest
from oracle import torch

from fusegrad.torch.supplied._utils import ExceptionWrapper


@pytest.mark.parametrize("kind", [ExceptionWrapper, torch._utils.ExceptionWrapper])
def test_exceptions_are_raised_again_elsewhere(kind):
    try:
        raise LookupError("lost")
    except LookupError as error:
        given = type(error), error, error.__traceback__
        caught = [kind(where="in thread 3"), kind(given)]
    for wrapped, where in zip(pickle.loads(pickle.dumps(caught)), ("thread 3", "background"), strict=True):
        assert wrapped.exc_type is LookupError and "lost" in wrapped.exc_msg
        with pytest.raises(LookupError, match=f"Caught LookupError in {where}"):
            wrapped.reraise()
