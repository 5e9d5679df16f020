"""`.fgx` files: `load` gives what `save` has written, to run and to train, without the source of it."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exporting import OPEN_PROGRAMS, drawn
from op_samples import SAMPLES

import fusegrad as fg
from fusegrad import nn
from fusegrad.cli import main
from fusegrad.eager.core.pytree import flatten
from fusegrad.tracer.export import exported_call
from fusegrad.tracer.ir.evaluation import GuardFailed


def leaves_of(result: Any) -> list[Any]:
    leaves: list[Any] = []
    flatten(result, leaves)
    return [leaf.detach().numpy() if isinstance(leaf, fg.Tensor) else leaf for leaf in leaves]


def agree(ours: Any, theirs: Any) -> None:
    for one, other in zip(leaves_of(ours), leaves_of(theirs), strict=True):
        if isinstance(other, np.ndarray):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        else:
            assert one == other


@pytest.mark.parametrize("name", OPEN_PROGRAMS)
def test_a_file_gives_values_and_gradients_at_all_sizes(tmp_path: Path, name: str):
    fg.manual_seed(0)
    make, shapes, axes = OPEN_PROGRAMS[name]
    function = make()
    if isinstance(function, nn.Module):
        function.eval()
    fg.export(function, tuple(drawn(s, {}) for s in shapes), tmp_path / "a.fgx", dynamic_shapes=axes)
    loaded = fg.export.load(tmp_path / "a.fgx")
    names = sorted({dim for each in axes for dim in each.values()})
    for sizes in itertools.product((5, 13), repeat=len(names)):
        chosen = dict(zip(names, sizes, strict=True))
        given = [{axis: chosen[dim] for axis, dim in each.items()} for each in axes]
        args = [drawn(shape, each) for shape, each in zip(shapes, given, strict=True)]
        agree(loaded(*args), function(*args))
        if not isinstance(function, nn.Module):
            continue
        for each in (loaded, function):
            each.zero_grad()
            result: list[Any] = []
            flatten(each(*args), result)
            if not any(p.requires_grad for p in function.parameters()):
                break
            (result[0] * fg.arange(result[0].numel()).reshape(result[0].shape)).sum().backward()
        ours = {k: p.grad for k, p in loaded.named_parameters()}
        for k, p in function.named_parameters():
            if p.grad is not None:
                np.testing.assert_allclose(ours[k], p.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", SAMPLES)
def test_ops_come_back_as_they_were(tmp_path: Path, name: str):
    for sample in [s for s in SAMPLES[name] if not s.random][:2]:
        tensors = [fg.tensor(a) for a in sample.inputs]

        def function(*given: fg.Tensor, sample: Any = sample) -> Any:
            return sample.call(fg, *given)

        try:
            fg.export(function, tuple(tensors), tmp_path / "op.fgx")
        except fg.export.ExportError as error:
            assert "differs" not in str(error) and "cannot be read" not in str(error)
            continue
        for one, other in zip(
            leaves_of(fg.export.load(tmp_path / "op.fgx")(*tensors)),
            leaves_of(function(*tensors)),
            strict=True,
        ):
            np.testing.assert_array_equal(one, other)


class Net(nn.Module):
    """Tied weights, a buffer, a result in a dict, a flag and a number among the arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ModuleDict({"first": nn.Linear(4, 4, bias=False), "second": nn.Linear(4, 4)})
        self.inner["second"].weight = self.inner["first"].weight
        self.register_buffer("scale", fg.full((4,), 0.5))

    def forward(self, x: fg.Tensor, parts: dict[str, Any], double: bool = False) -> dict[str, Any]:
        h = self.inner["second"](fg.tanh(self.inner["first"](x))) * self.scale + parts["bias"]
        return {"result": h * 2 if double else h, "none": None, "both": [h, (x, 3)]}


SCRIPT = """
import sys
import fusegrad as fg
loaded = fg.export.load(sys.argv[1])
given = fg.load(sys.argv[2])
optimizer = fg.optim.SGD(loaded.parameters(), lr=0.1)

@fg.jit
def step(x, bias):
    optimizer.zero_grad()
    result = loaded(x, {"bias": bias}, double=True)["result"].square().mean()
    result.backward()
    optimizer.step()
    return result

losses = [step(x, given["bias"]).item() for x in given["xs"]]
fg.save({"losses": losses, "state": loaded.state_dict()}, sys.argv[3])
"""


def test_a_process_without_the_source_trains_on(tmp_path: Path):
    fg.manual_seed(0)
    net, bias = Net(), fg.randn(4)
    shapes = {"x": {0: "batch"}}
    fg.export.save(
        net,
        (fg.randn(3, 4), {"bias": bias}),
        tmp_path / "net.fgx",
        kwargs={"double": True},
        dynamic_shapes=shapes,
    )
    xs = [fg.randn(5 + n % 3, 4) for n in range(9)]
    fg.save({"xs": xs, "bias": bias}, tmp_path / "given.pt")
    paths = [str(tmp_path / name) for name in ("net.fgx", "given.pt", "out.pt")]
    subprocess.run([sys.executable, "-c", SCRIPT, *paths], check=True, timeout=300)
    found = fg.load(tmp_path / "out.pt")
    optimizer = fg.optim.SGD(net.parameters(), lr=0.1)
    for x, loss in zip(xs, found["losses"], strict=True):
        optimizer.zero_grad()
        expected = net(x, {"bias": bias}, double=True)["result"].square().mean()
        expected.backward()
        optimizer.step()
        assert loss == pytest.approx(expected.item(), rel=1e-5)
    assert found["state"].keys() == net.state_dict().keys()
    for key, value in net.state_dict().items():
        np.testing.assert_allclose(found["state"][key], value, rtol=1e-5, atol=1e-6)


def test_what_a_call_must_be_like(tmp_path: Path):
    net = Net()
    fg.export(net, (fg.ones(3, 4), {"bias": fg.ones(4)}), tmp_path / "a.fgx")
    loaded = fg.export.load(tmp_path / "a.fgx")
    good = loaded(fg.ones(3, 4), {"bias": fg.ones(4)})
    assert good["none"] is None and good["both"][1][1] == 3
    assert [n for n, _ in loaded.named_parameters()] == [n for n, _ in net.named_parameters()]
    assert loaded.inner.first.weight is loaded.inner.second.weight
    for args, kwargs, words in [
        ((fg.ones(2, 4), {"bias": fg.ones(4)}), {}, r"shape \[2, 4\], and was exported for .* \[3, 4\]"),
        ((fg.ones(3, 4).double(), {"bias": fg.ones(4)}), {}, "float64 .* was exported for"),
        ((fg.ones(3, 4), {"other": fg.ones(4)}), {}, r"the keys \['other'\]"),
        ((fg.ones(3, 4), {"bias": 3.0}), {}, "is a float, and was exported as a tensor"),
        ((fg.ones(3, 4),), {}, "1 items, and was exported as a tuple with 2 items"),
        ((fg.ones(3, 4), {"bias": fg.ones(4)}), {"double": True}, "double"),
    ]:
        with pytest.raises(TypeError, match=words):
            loaded(*args, **kwargs)


def test_sizes_that_were_not_asked_for_are_refused(tmp_path: Path):
    """A slice of the last three rows, say, is another thing for two."""
    several, table = fg.export.Dim("n", min=3, max=8), fg.arange(10.0)

    def function(x: Any) -> Any:
        return table[: x.shape[0]].sum() + x[-3:].sum()

    fg.export.save(function, (fg.ones(6),), tmp_path / "a.fgx", dynamic_shapes=[{0: several}])
    loaded = fg.export.load(tmp_path / "a.fgx")
    for call in (loaded, fg.jit(loaded)):
        for size in range(3, 9):
            agree(call(fg.arange(float(size))), function(fg.arange(float(size))))
        for size in (0, 2, 9, 20):
            with pytest.raises(TypeError, match=f"n = {size}, and was exported for 3 to 8"):
                call(fg.ones(size))


def test_numbers_of_a_call_are_those_that_were_exported(tmp_path: Path):
    """Also where `jit` would have them vary."""
    fg.export(lambda x, a: x * a, (fg.ones(3), 2.0), tmp_path / "a.fgx")
    loaded = fg.export.load(tmp_path / "a.fgx")
    compiled = fg.jit(lambda x, a: loaded(x, a) + a)
    for a in [2.0, 2.0, 2.0, 3.0, 2.0, 4.0, 5.0, 2.0]:
        if a == 2.0:
            assert compiled(fg.ones(3), a).tolist() == [4.0] * 3
        else:
            with pytest.raises(TypeError, match=f"is {a}, and was exported as 2.0"):
                compiled(fg.ones(3), a)


def test_a_branch_on_values_is_asked_again(tmp_path: Path):
    fg.export(lambda x: x * 2 if x.sum() > 0 else x, (fg.ones(3),), tmp_path / "a.fgx")
    loaded = fg.export.load(tmp_path / "a.fgx")
    assert loaded(fg.ones(3)).tolist() == [2.0] * 3
    with pytest.raises(GuardFailed):
        loaded(-fg.ones(3))


def test_names_that_a_module_has_already(tmp_path: Path):
    forward, training = fg.randn(3), fg.randn(3, requires_grad=True)
    fg.export(lambda x: x * forward + training, (fg.ones(3),), tmp_path / "a.fgx")
    loaded = fg.export.load(tmp_path / "a.fgx")
    agree(loaded(fg.ones(3)), forward + training)
    assert len(loaded.state_dict()) == 2 and len([*loaded.parameters()]) == 1


@pytest.mark.parametrize(
    "text",
    [
        "def graph(x: f32[3]) -> tuple[f32[3]]:\n    return (__import__('os').getcwd(),)",
        "def graph(x: f32[3]) -> tuple[f32[3]]:\n    v: f32[3] = exec('1')\n    return (v,)",
        "def graph(x: f32[3]) -> tuple[f32[3]]:\n    v: f32[4] = mul(x, 2.0)\n    return (v,)",
        "def graph(x: f32[3]) -> tuple[f32[3]]:\n    v: f32[3] = mul(y, 2.0)\n    return (v,)",
        "import os",
        "(" * 10_000,
    ],
)
def test_damaged_and_foreign_files_are_errors(tmp_path: Path, text: str):
    fg.export(lambda x: x * 2, (fg.ones(3),), tmp_path / "a.fgx")
    content = fg.load(tmp_path / "a.fgx")
    fg.save({**content, "graph": text}, tmp_path / "b.fgx")
    fg.save([1, 2], tmp_path / "c.fgx")
    (tmp_path / "d.fgx").write_bytes((tmp_path / "a.fgx").read_bytes()[:-40])
    for name in "bcd":
        with pytest.raises(fg.export.ExportError, match="can be read"):
            fg.export.load(tmp_path / f"{name}.fgx")


def test_a_wrong_file_is_not_put_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A planted fault: what is read again is not what was written."""
    monkeypatch.setattr(
        exported_call, "evaluate_graph", lambda graph, given: (fg.zeros(3),) * len(graph.outputs)
    )
    with pytest.raises(fg.export.ExportError, match="differs from eager's"):
        fg.export(lambda x: x * 2, (fg.ones(3),), tmp_path / "a.fgx")
    assert not (tmp_path / "a.fgx").exists()


def test_inspect_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    net = nn.Linear(2, 3)
    fg.export(net, (fg.ones(4, 2),), tmp_path / "a.fgx", dynamic_shapes=[{0: "batch"}])
    assert main(["inspect", str(tmp_path / "a.fgx")]) == 0
    shown = capsys.readouterr().out
    assert "graph of Linear, version 1" in shown and "sizes    batch" in shown
    assert "weight: torch.float32 [3, 2]" in shown and "f32[size.batch, 3] = linear(" in shown
    assert main(["inspect", str(tmp_path / "b.fgx")]) == 2


def test_zeros_of_another_sign_are_other_numbers(tmp_path: Path):
    fg.export(lambda x, a: x * a, (fg.ones(3), 0.0), tmp_path / "a.fgx")
    with pytest.raises(TypeError, match=r"is -0.0, and was exported as 0.0"):
        fg.export.load(tmp_path / "a.fgx")(fg.ones(3), -0.0)
