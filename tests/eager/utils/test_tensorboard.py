"""What SummaryWriter writes: TensorBoard's own reader reads it, and it is what PyTorch's writer writes."""

from __future__ import annotations

import builtins
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event

import fusegrad as fg
from fusegrad.utils.tensorboard import SummaryWriter

RNG = np.random.default_rng(0)
VALUES = RNG.standard_normal((4, 5)).astype(np.float32)
IMAGE = RNG.random((3, 6, 7)).astype(np.float32)
LAYOUT = {"losses": {"both": ["Multiline", ["a", "b"]], "band": ["Margin", ["a", "b", "c"]]}}

# Each is done to PyTorch's writer and to ours: from a writer, and what makes a tensor of an array.
CALLS: dict[str, Any] = {
    "scalar": lambda w, t: w.add_scalar("loss", t(VALUES).sum(), 3, walltime=1.0),
    "scalar of a number": lambda w, t: w.add_scalar("loss", 0.1, t(np.int64(3)), walltime=1.0),
    "scalar of one element": lambda w, t: w.add_scalar("loss", t(np.ones((1, 1))), walltime=1.0),
    "scalar, new": lambda w, t: w.add_scalar("loss", 0.1, 1, 1.0, new_style=True),
    "scalar, double": lambda w, t: w.add_scalar("loss", 0.1, 1, 1.0, new_style=True, double_precision=True),
    "histogram": lambda w, t: w.add_histogram("weights", t(VALUES), 2, walltime=1.0),
    "histogram with bins": lambda w, t: w.add_histogram("weights", t(VALUES), 2, 7, 1.0),
    "histogram by rule": lambda w, t: w.add_histogram("weights", t(VALUES), 2, "auto", 1.0),
    "histogram of one value": lambda w, t: w.add_histogram("weights", t(np.zeros(3)), 2, walltime=1.0),
    "histogram, few bins": lambda w, t: w.add_histogram("weights", t(VALUES), 2, walltime=1.0, max_bins=90),
    "histogram of a list": lambda w, t: w.add_histogram("weights", np.arange(9), 2, walltime=1.0),
    "raw": lambda w, t: w.add_histogram_raw("h", 0, 2, 3, 3, 5, [1.0, 2.0], [1, 2], 4, walltime=1.0),
    "image": lambda w, t: w.add_image("image", t(IMAGE), 1, walltime=1.0),
    "image of bytes": lambda w, t: w.add_image("i", t((IMAGE * 255).astype(np.uint8)), 1, walltime=1.0),
    "rows first": lambda w, t: w.add_image("i", t(IMAGE).permute(1, 2, 0), 1, 1.0, dataformats="HWC"),
    "grey": lambda w, t: w.add_image("i", t(IMAGE[:1]), 1, 1.0),
    "plane": lambda w, t: w.add_image("i", t(IMAGE[0]), 1, 1.0, dataformats="HW"),
    "plane turned": lambda w, t: w.add_image("i", t(IMAGE[0]), 1, 1.0, dataformats="WH"),
    "beyond white": lambda w, t: w.add_image("i", t(IMAGE * 3 - 1), 1, 1.0),
    "images": lambda w, t: w.add_images("i", t(RNG_IMAGES), 1, 1.0),
    "images, colours last": lambda w, t: w.add_images(
        "i", t(RNG_IMAGES).permute(0, 2, 3, 1), 1, 1.0, dataformats="NHWC"
    ),
    "grey images": lambda w, t: w.add_images("i", t(RNG_IMAGES[:, :1]), 1, 1.0),
    "sound": lambda w, t: w.add_audio("a", t(np.sin(np.arange(50.0))), 1, 8000, 1.0),
    "text": lambda w, t: w.add_text("note", "*grüße*", 1, 1.0),
    "curve": lambda w, t: w.add_pr_curve("pr", t(VALUES[0] > 0), t(IMAGE[0, 0, :5]), 1, 9, walltime=1.0),
    "weighted curve": lambda w, t: w.add_pr_curve(
        "pr", t(VALUES[0] > 0), t(IMAGE[0, 0, :5]), 1, 300, IMAGE[1, 1, :5], 1.0
    ),
    "charts": lambda w, t: w.add_custom_scalars(LAYOUT),
    "one chart": lambda w, t: w.add_custom_scalars_multilinechart(["a", "b"]),
    "one band": lambda w, t: w.add_custom_scalars_marginchart(["a", "b", "c"]),
}
RNG_IMAGES = RNG.random((11, 3, 4, 5))


def written(folder: Path) -> list[Event]:
    """The events of the files in a folder, but for those that say which library wrote them."""
    events = []
    for file in sorted(folder.rglob("events.*")):
        found = [Event.FromString(raw) for raw in RawEventFileLoader(str(file)).Load()]
        events += [event for event in found if event.WhichOneof("what") != "file_version"]
    return events


def peer() -> Any:
    pytest.importorskip("torch")
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_writes_what_pytorch_writes(call: Any, tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "ours") as ours:
        call(ours, lambda array: fg.tensor(array))
    with peer()(tmp_path / "theirs") as theirs:
        call(theirs, lambda array: torch.tensor(array))
    (ours_event,), (theirs_event,) = written(tmp_path / "ours"), written(tmp_path / "theirs")
    for event in (ours_event, theirs_event):
        for value in event.summary.value:
            normalise(value)
        if not event.summary.value[0].tag.startswith("custom"):
            assert event.wall_time == 1.0
        event.wall_time = 0
    assert ours_event == theirs_event


def normalise(value: Any) -> None:
    """Images as pixels, and tensors as their values: there are several ways to write either."""
    if value.HasField("image"):
        from PIL import Image

        pixels = np.asarray(Image.open(io.BytesIO(value.image.encoded_image_string)))
        value.image.encoded_image_string = pixels.tobytes()
    if value.HasField("tensor") and value.tensor.dtype == 1:
        from tensorboard.util.tensor_util import make_ndarray

        array = make_ndarray(value.tensor)
        value.tensor.tensor_content, value.tensor.float_val[:] = array.tobytes(), []


def read(folder: Path) -> EventAccumulator:
    return EventAccumulator(str(folder), {"histograms": 0}).Reload()  # all, not the last


def test_tensorboard_reads_it(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        for step in range(3):
            writer.add_scalar("loss", fg.tensor(1.0 / (step + 1)), step)
            writer.add_histogram("weights", fg.arange(4.0), step)
        writer.add_image("image", fg.rand(3, 4, 5))
        writer.add_text("note", "hello")
        writer.add_tensor("values", fg.arange(3).double())
    found = read(tmp_path)
    assert [(e.step, e.value) for e in found.Scalars("loss")] == [(0, 1), (1, 0.5), (2, np.float32(1 / 3))]
    assert sum(found.Histograms("weights")[0].histogram_value.bucket) == 4
    (image,) = found.Images("image")
    assert (image.height, image.width) == (4, 5)
    (text,) = found.Tensors("note/text_summary")
    assert list(text.tensor_proto.string_val) == [b"hello"]
    (values,) = found.Tensors("values")
    assert np.frombuffer(values.tensor_proto.tensor_content).tolist() == [0, 1, 2]


def test_figures(tmp_path: Path) -> None:
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    figures = [pyplot.figure(figsize=(1, 1), dpi=20) for _ in range(3)]
    with SummaryWriter(tmp_path) as writer:
        writer.add_figure("one", figures[0], close=False)
        writer.add_figure("both", figures[1:], 1)
    assert pyplot.get_fignums() == [figures[0].number]
    pyplot.close(figures[0])
    found = read(tmp_path)
    assert [(i.height, i.width) for i in found.Images("one") + found.Images("both")] == [(20, 20), (20, 40)]


def test_scalars_of_one_chart_are_runs_of_their_own(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        for step in range(2):
            writer.add_scalars("run/loss", {"train": step, "test": fg.tensor(step + 1.0)}, step)
    for name, values in (("train", [0, 1]), ("test", [1, 2])):
        found = read(tmp_path / f"run_loss_{name}").Scalars("run/loss")
        assert [e.value for e in found] == values


@pytest.mark.parametrize("domains", [None, {"optimiser": ["adam", "sgd"], "deep": [True, False]}])
def test_hyperparameters(tmp_path: Path, domains: Any) -> None:
    chosen = {"lr": 0.1, "layers": 3, "optimiser": "adam", "nothing": None}
    with SummaryWriter(tmp_path / "ours") as ours, peer()(tmp_path / "theirs") as theirs:
        if domains is None:
            theirs.add_hparams(chosen, {"accuracy": 0.5}, run_name="r")
            ours.add_hparams(chosen, {"accuracy": fg.tensor(0.5)}, run_name="r")
        else:  # PyTorch says of a bool that it is a number
            ours.add_hparams({**chosen, "deep": True}, {"accuracy": 0.5}, domains, "r")
    got = written(tmp_path / "ours" / "r")
    assert [v.tag for e in got for v in e.summary.value] == [
        "_hparams_/experiment",
        "_hparams_/session_start_info",
        "_hparams_/session_end_info",
        "accuracy",
    ]
    if domains is None:
        for one, other in zip(got, written(tmp_path / "theirs" / "r"), strict=True):
            assert one.summary == other.summary
    else:
        from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

        content = got[0].summary.value[0].metadata.plugin_data.content
        infos = {i.name: i for i in HParamsPluginData.FromString(content).experiment.hparam_infos}
        assert list(infos["optimiser"].domain_discrete) == ["adam", "sgd"]
        assert list(infos["deep"].domain_discrete) == [True, False]
    with SummaryWriter(tmp_path / "wrong") as writer:
        with pytest.raises(TypeError, match="list of same type"):
            writer.add_hparams({"lr": 0.1}, {}, {"lr": ["much"]})
        with pytest.raises(ValueError, match="one of int, float"):
            writer.add_hparams({"lr": [0.1]}, {})


def test_what_is_written_later_is_seen_and_steps_are_purged(tmp_path: Path) -> None:
    writer = SummaryWriter(tmp_path)
    writer.add_scalar("loss", 1, 5)
    writer.flush()
    assert len(read(tmp_path).Scalars("loss")) == 1
    writer.close()
    writer.close()
    writer.add_scalar("loss", 2, 6)  # in a file of its own
    writer.close()
    with SummaryWriter(tmp_path, purge_step=6, filename_suffix=".again") as writer:
        writer.add_scalar("loss", 3, 6)
    assert [(e.step, e.value) for e in read(tmp_path).Scalars("loss")] == [(5, 1), (6, 3)]


def test_the_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    SummaryWriter(comment="_fast").close()
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.endswith("_fast")


def test_dtypes(tmp_path: Path) -> None:
    """A bfloat16 has no array of NumPy's, and what needs gradients gives none here."""
    with SummaryWriter(tmp_path) as writer:
        for dtype in (fg.bfloat16, fg.float16, fg.float64, fg.int32, fg.bool):
            writer.add_scalar("loss", fg.ones((), dtype=dtype))
            writer.add_histogram("values", fg.ones(3, dtype=dtype))
        writer.add_scalar("loss", fg.ones((), requires_grad=True) * 1)
    assert [e.value for e in read(tmp_path).Scalars("loss")] == [1] * 6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: w.add_scalar("loss", fg.ones(2)), "should contain one element"),
        (lambda w: w.add_scalar("loss", "much"), "numpy array or torch tensor are expected"),
        (lambda w: w.add_histogram("h", fg.ones(0)), "The input has no element"),
        (lambda w: w.add_histogram("h", fg.ones(2), bins=[5, 6]), "no value lies in the bins"),
        (lambda w: w.add_image("i", fg.ones(2, 3)), "input format are different"),
        (lambda w: w.add_image("i", fg.ones(2, 3), dataformats="HH"), "in some order, not 'HH'"),
        (lambda w: w.add_audio("i", fg.ones(2, 3)), "should be 1 dimensional"),
        (lambda w: w.add_custom_scalars_marginchart(["a"]), "Expected 3 tags, got 1"),
        (lambda w: w.add_hparams([], {}), "should be dictionary"),
        (lambda w: w.add_histogram_raw("h", 0, 1, 1, 1, 1, [1], [1, 2]), r"len\(bucket_limits\)"),
        (lambda w: w.add_graph(fg.nn.Linear(1, 1), fg.ones(1)), "fg.export writes"),
        (lambda w: w.add_onnx_graph("a.onnx"), "is not there"),
        (lambda w: w.add_video("v", fg.ones(1, 1, 3, 4, 4), fps=4), "add_images shows"),
        (lambda w: w.add_embedding(fg.ones(1, 1), metadata=["a"]), "add_tensor keeps"),
        (lambda w: w.add_mesh("m", fg.ones(1, 3, 3)), "add_figure shows"),
        (lambda w: w.add_image_with_boxes("m", fg.ones(3, 3), fg.ones(1, 4)), "add_figure shows"),
    ],
)
def test_what_cannot_be_shown_is_refused(call: Any, message: str, tmp_path: Path) -> None:
    errors = (AssertionError, TypeError, ValueError, NotImplementedError)
    with SummaryWriter(tmp_path) as writer, pytest.raises(errors, match=message):
        call(writer)


def test_without_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refusing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "tensorboard":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refusing)
    with pytest.raises(ImportError, match=r"pip install fusegrad\[tensorboard\]"):
        SummaryWriter(tmp_path)


def test_a_jitted_function_may_write(tmp_path: Path) -> None:
    """The numbers are those of each call, whether it is recorded or not."""
    with SummaryWriter(tmp_path) as writer:

        @fg.jit
        def step(x: fg.Tensor, number: int) -> fg.Tensor:
            loss = (x * x).sum()
            writer.add_scalar("loss", loss, number)
            writer.add_histogram("x", x, number)
            return loss

        for number in range(5):
            assert float(step(fg.full((3,), float(number)), number)) == 3 * number**2
    found = read(tmp_path)
    assert [(e.step, e.value) for e in found.Scalars("loss")] == [(n, 3 * n**2) for n in range(5)]
    assert [e.histogram_value.max for e in found.Histograms("x")] == list(range(5))
