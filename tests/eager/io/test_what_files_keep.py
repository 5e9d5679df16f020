"""What files keep of tensors besides their values, in both libraries' files, read by both."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.eager.io.allowed import safe_globals

BOTH = (True, False)
WAYS = ((fg.save, fg.load, fg), (torch.save, fg.load, torch), (fg.save, torch.load, fg))


def test_what_programs_set_on_tensors_goes_both_ways():
    def with_attributes(T):
        x, p, plain = T.ones(2), T.nn.Parameter(T.ones(3)), T.nn.Parameter(T.zeros(2))
        x.note, p.group, x.beside = "a note", 3, T.arange(3)
        return {"x": x, "p": p, "plain": plain}

    for zipped in BOTH:
        for save, load, T in (
            (fg.save, fg.load, fg),
            (torch.save, fg.load, torch),
            (fg.save, torch.load, fg),
        ):
            file = io.BytesIO()
            save(with_attributes(T), file, _use_new_zipfile_serialization=zipped)
            file.seek(0)
            found = load(file)
            assert found["x"].note == "a note" and found["x"].beside.tolist() == [0, 1, 2]
            assert found["p"].group == 3 and type(found["p"]).__name__ == "Parameter"
            assert type(found["plain"]).__name__ == "Parameter" and not hasattr(found["plain"], "group")


def test_tensors_without_values_go_both_ways():
    def on_meta(T):
        with T.device("meta"):
            return {
                "layer": T.nn.Linear(2, 3).state_dict(),
                "t": T.empty(2, 3).T,
                "b": T.empty(1 << 20, 1 << 20),
            }

    for save, load, T in WAYS:
        file = io.BytesIO()
        save(on_meta(T), file)
        file.seek(0)
        found = load(file)
        assert found["t"].stride() == (1, 3) and found["b"].shape[0] == 1 << 20 and found["b"].is_meta
        assert found["layer"]["weight"].is_meta


def test_memory_seen_as_two_dtypes_is_refused_as_in_torch():
    for T in (fg, torch):
        x = T.ones(4)
        with pytest.raises(RuntimeError, match="view the same data as different types"):
            T.save([x, x.view(T.int32)], io.BytesIO())


class Slotted(fg.Tensor):
    __slots__ = ["inner", "other"]


class Stating(fg.Tensor):
    def __getstate__(self):
        return "state", dict(self.__dict__)

    def __setstate__(self, state):
        self.__dict__.update(state[1], said=state[0])


def test_tensors_of_users_classes_keep_what_they_have():
    slotted = fg.arange(3.0).as_subclass(Slotted)
    slotted.inner, slotted.note, slotted._own = fg.ones(2), "n", [1]
    stating = fg.arange(3.0).as_subclass(Stating)
    stating.note = "n"
    file = io.BytesIO()
    fg.save([slotted, stating], file)
    ways = [lambda: copy.deepcopy([slotted, stating]), lambda: pickle.loads(pickle.dumps([slotted, stating]))]
    ways += [lambda: [copy.copy(slotted), copy.copy(stating)]]
    ways += [lambda: fg.load(io.BytesIO(file.getvalue()), weights_only=False)]
    with pytest.raises(pickle.UnpicklingError, match="Slotted was not an allowed global"):
        fg.load(io.BytesIO(file.getvalue()))
    with safe_globals([Slotted, Stating]):
        allowed = fg.load(io.BytesIO(file.getvalue()))
    ways += [lambda: allowed]
    for number, way in enumerate(ways):
        a, b = way()
        assert type(a) is Slotted and a.tolist() == [0.0, 1.0, 2.0] and a.inner.tolist() == [1.0, 1.0]
        assert (a.note, a._own) == ("n", [1]) and not hasattr(a, "other")
        assert type(b) is Stating and b.note == "n" and (number in (0, 2) or b.said == "state")


def test_numbers_of_numpy_stay_what_they_are():
    value = {"a": np.float32(0.1), "b": [np.int8(3), np.complex64(1j)], "c": np.bool_(True)}
    for save, load in ((fg.save, fg.load), (torch.save, fg.load), (fg.save, torch.load)):
        file = io.BytesIO()
        save(value, file)
        file.seek(0)
        found = load(file, weights_only=False)
        assert found == value and type(found["a"]) is np.float32 and type(found["b"][0]) is np.int8
    file.seek(0)
    assert type(fg.load(file)["b"][1]) is np.complex64


def test_private_attributes_are_kept_and_hooks_are_not():
    for save, load, T in WAYS:
        x = T.nn.Parameter(T.ones(2))
        x._note = "kept"
        x.register_hook(lambda grad: grad)
        file = io.BytesIO()
        save({"x": x}, file)
        file.seek(0)
        found = load(file)["x"]
        assert found._note == "kept" and found.requires_grad
        assert not getattr(found, "_backward_hooks", None)
