"""What files keep of tensors besides their values, in both libraries' files, read by both."""

from __future__ import annotations

import io

import pytest
from oracle import torch

import fusegrad as fg

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
