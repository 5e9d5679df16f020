"""What TensorBoard reads, made of arrays: one function for each kind of summary, from values to a message.

The messages are those of the `tensorboard` library, in the form in which PyTorch writes them. Its own helpers
need TensorFlow, so the few fields are filled in here.
"""

from __future__ import annotations

import io
import wave
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.dtypes import FROM_NUMPY, bfloat16
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.tensor import Tensor

_COLUMNS = 8  # how many images of a batch stand side by side
_LOUDEST = np.iinfo(np.int16).max
_MOST_THRESHOLDS = 127  # TensorBoard shows no curve of more


def messages() -> Any:
    """The module of the messages of summaries. Raises ImportError where tensorboard is not installed."""
    try:
        from tensorboard.compat.proto import summary_pb2
    except ImportError:
        raise failure(
            ImportError, "SummaryWriter needs the tensorboard library: pip install fusegrad[tensorboard]"
        ) from None
    return summary_pb2


def as_array(values: Any) -> np.ndarray:
    """The values of a tensor, an array, a number or a list of numbers."""
    if isinstance(values, Tensor):
        values = values.detach()
        values = (values.float() if values.dtype is bfloat16 else values).numpy()
    array = np.asarray(values)
    if array.dtype not in FROM_NUMPY:
        raise failure(
            NotImplementedError, f"Got {type(values)}, but numpy array or torch tensor are expected."
        )
    return array


def _one(tag: str, **fields: Any) -> Any:
    """A summary of one value."""
    library = messages()
    return library.Summary(value=[library.Summary.Value(tag=tag, **fields)])


def _metadata(plugin: str, content: bytes = b"") -> Any:
    """Which part of TensorBoard a value is for."""
    kind = messages().SummaryMetadata
    return kind(plugin_data=kind.PluginData(plugin_name=plugin, content=content))


def _number(value: Any) -> float:
    array = as_array(value)
    if array.size != 1:
        raise failure(
            AssertionError,
            f"Tensor should contain one element (0 dimensions). "
            f"Was given size: {array.size} and {array.ndim} dimensions.",
        )
    return float(array.reshape(()))


def scalar(tag: str, value: Any, new_style: bool = False, double_precision: bool = False) -> Any:
    number = _number(value)
    if not new_style:
        return _one(tag, simple_value=number)
    from tensorboard.compat.proto.tensor_pb2 import TensorProto

    if double_precision:
        held = TensorProto(double_val=[number], dtype="DT_DOUBLE")
    else:
        held = TensorProto(float_val=[number], dtype="DT_FLOAT")
    return _one(tag, tensor=held, metadata=_metadata("scalars"))


def tensor(tag: str, values: Any) -> Any:
    messages()
    from tensorboard.util.tensor_util import make_tensor_proto

    return _one(tag, tensor=make_tensor_proto(as_array(values)), metadata=_metadata("tensor"))


def histogram(tag: str, values: Any, bins: Any, max_bins: int | None = None) -> Any:
    array = as_array(values).astype(float).reshape(-1)
    if array.size == 0:
        raise failure(ValueError, "The input has no element.")
    counts, limits = np.histogram(array, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        counts, limits = _fewer(counts, limits, max_bins)
    filled = np.flatnonzero(counts)
    if not filled.size:
        raise failure(ValueError, f"no value lies in the bins, which run from {limits[0]} to {limits[-1]}")
    first, last = filled[0], filled[-1]
    # TensorBoard has the right end of each bin alone: an empty bin before says where the first begins.
    before = counts[first - 1 : first] if first else np.zeros(1, counts.dtype)
    return histogram_raw(
        tag,
        array.min(),
        array.max(),
        array.size,
        array.sum(),
        array.dot(array),
        limits[first : last + 2].tolist(),
        np.concatenate([before, counts[first : last + 1]]).tolist(),
    )


def _fewer(counts: np.ndarray, limits: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Neighbouring bins taken together until there are about `most`."""
    together = len(counts) // most
    counts = np.pad(counts, (0, -len(counts) % together)).reshape(-1, together).sum(axis=-1)
    return counts, np.append(limits[:-1:together], limits[-1])


def histogram_raw(
    tag: str,
    min: float,
    max: float,
    num: float,
    sum: float,
    sum_squares: float,
    bucket_limits: Any,
    bucket_counts: Any,
) -> Any:
    histo = messages().HistogramProto(
        min=min,
        max=max,
        num=num,
        sum=sum,
        sum_squares=sum_squares,
        bucket_limit=as_array(bucket_limits).tolist(),
        bucket=as_array(bucket_counts).tolist(),
    )
    return _one(tag, histo=histo)


def image(tag: str, values: Any, dataformats: str) -> Any:
    library = messages()
    array = _rows_and_colours(as_array(values), dataformats.upper())
    if array.dtype != np.uint8:
        array = (array.astype(np.float32) * 255).clip(0, 255).astype(np.uint8)
    height, width, colours = array.shape
    return _one(
        tag,
        image=library.Summary.Image(
            height=height, width=width, colorspace=colours, encoded_image_string=_png(array)
        ),
    )


def _rows_and_colours(array: np.ndarray, dataformats: str) -> np.ndarray:
    """An image, or a batch of images side by side, with its rows first and its colours last."""
    if array.ndim != len(dataformats):
        raise failure(
            AssertionError,
            f"size of input tensor and input format are different. "
            f"tensor shape: {array.shape}, input_format: {dataformats}",
        )
    order = {2: "HW", 3: "HWC", 4: "NHWC"}.get(array.ndim, "")
    if sorted(order) != sorted(dataformats):
        raise failure(AssertionError, f"dataformats are NCHW, CHW or HW in some order, not {dataformats!r}")
    array = array.transpose([dataformats.index(name) for name in order])
    if array.ndim == 2:
        array = array[..., np.newaxis]
    if array.shape[-1] == 1:
        array = np.repeat(array, 3, axis=-1)
    return _grid(array) if array.ndim == 4 else array


def _grid(images: np.ndarray) -> np.ndarray:
    count, height, width, colours = images.shape
    columns = min(count, _COLUMNS)
    rows = -(-count // columns)
    missing = np.zeros((rows * columns - count, height, width, colours), images.dtype)
    grid = np.concatenate([images, missing]).reshape(rows, columns, height, width, colours)
    return grid.swapaxes(1, 2).reshape(rows * height, columns * width, colours)


def _png(array: np.ndarray) -> bytes:
    from PIL import Image  # tensorboard brings it along

    file = io.BytesIO()
    Image.fromarray(array).save(file, format="PNG")
    return file.getvalue()


def figure_values(figure: Any, close: bool) -> np.ndarray:
    """What a matplotlib figure shows: colours, rows, columns."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    values = np.asarray(canvas.buffer_rgba())[..., :3].copy()
    if close:
        from matplotlib import pyplot

        pyplot.close(figure)
    return np.moveaxis(values, -1, 0)


def audio(tag: str, values: Any, sample_rate: int) -> Any:
    library = messages()
    array = as_array(values).squeeze()
    if array.ndim != 1:
        raise failure(AssertionError, "input tensor should be 1 dimensional.")
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(sample_rate)
        writer.writeframes((array.clip(-1, 1) * _LOUDEST).astype("<i2").tobytes())
    held = library.Summary.Audio(
        sample_rate=sample_rate,
        num_channels=1,
        length_frames=array.size,
        encoded_audio_string=file.getvalue(),
        content_type="audio/wav",
    )
    return _one(tag, audio=held)


def _words(text: bytes, shape: Sequence[int]) -> Any:
    """A tensor of one string."""
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

    sizes = TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in shape])
    return TensorProto(dtype="DT_STRING", string_val=[text], tensor_shape=sizes)


def text(tag: str, words: str) -> Any:
    messages()
    from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

    metadata = _metadata("text", TextPluginData(version=0).SerializeToString())
    return _one(f"{tag}/text_summary", tensor=_words(words.encode(), [1]), metadata=metadata)


def pr_curve(tag: str, labels: Any, predictions: Any, thresholds: int, weights: Any) -> Any:
    """Precision and recall where what is predicted at least so likely counts as predicted."""
    thresholds = min(thresholds, _MOST_THRESHOLDS)
    true = as_array(labels).astype(float).reshape(-1)
    chances = as_array(predictions).reshape(-1)
    each = 1.0 if weights is None else as_array(weights).astype(float).reshape(-1)
    buckets = np.floor(chances * (thresholds - 1)).astype(np.int32)

    def counted(weight: np.ndarray) -> np.ndarray:
        ends = (0, thresholds - 1)
        return np.histogram(buckets, bins=thresholds, range=ends, weights=weight)[0][::-1].cumsum()[::-1]

    right, wrong = counted(true * each), counted((1 - true) * each)
    missed, rejected = right[0] - right, wrong[0] - wrong
    precision = right / np.maximum(1e-7, right + wrong)
    recall = right / np.maximum(1e-7, right + missed)
    return pr_curve_raw(tag, (right, wrong, rejected, missed, precision, recall), thresholds)


def pr_curve_raw(tag: str, rows: Sequence[Any], thresholds: int) -> Any:
    messages()
    from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData
    from tensorboard.util.tensor_util import make_tensor_proto

    content = PrCurvePluginData(version=0, num_thresholds=min(thresholds, _MOST_THRESHOLDS))
    held = make_tensor_proto(np.stack([as_array(row) for row in rows]).astype(np.float32))
    return _one(tag, tensor=held, metadata=_metadata("pr_curves", content.SerializeToString()))


def custom_scalars(layout: dict[str, dict[str, Sequence[Any]]]) -> Any:
    """Which scalars share a chart: {category: {title: ["Multiline" or "Margin", tags]}}."""
    messages()
    from tensorboard.plugins.custom_scalar import layout_pb2

    def chart(title: str, kind: str, tags: Sequence[str]) -> Any:
        if kind != "Margin":
            return layout_pb2.Chart(title=title, multiline=layout_pb2.MultilineChartContent(tag=tags))
        if len(tags) != 3:
            raise failure(AssertionError, f"Expected 3 tags, got {len(tags)}.")
        series = layout_pb2.MarginChartContent.Series(value=tags[0], lower=tags[1], upper=tags[2])
        return layout_pb2.Chart(title=title, margin=layout_pb2.MarginChartContent(series=[series]))

    held = layout_pb2.Layout(
        category=[
            layout_pb2.Category(
                title=category, chart=[chart(title, kind, tags) for title, (kind, tags) in charts.items()]
            )
            for category, charts in layout.items()
        ]
    )
    words = _words(held.SerializeToString(), [])
    return _one("custom_scalars__config__", tensor=words, metadata=_metadata("custom_scalars"))


def hparams(chosen: dict[str, Any], metrics: dict[str, Any], domains: dict[str, list[Any]]) -> list[Any]:
    """Three summaries: what may be chosen and is measured, what was chosen, and that the run has ended."""
    messages()
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

    for name, domain in domains.items():
        right = name in chosen and isinstance(domain, list)
        if not right or not all(isinstance(value, type(chosen[name])) for value in domain):
            raise failure(
                TypeError,
                f"parameter: hparam_domain_discrete[{name}] should be a list of same type "
                f"as hparam_dict[{name}].",
            )
    start, infos = plugin_data_pb2.SessionStartInfo(), []
    for name, value in chosen.items():
        if value is None:
            continue
        kind, fill = _hparam_kind(value)
        fill(start.hparams[name], value)
        info = api_pb2.HParamInfo(name=name, type=kind)
        for member in domains.get(name, ()):
            fill(info.domain_discrete.values.add(), member)
        infos.append(info)
    names = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag)) for tag in metrics]
    experiment = api_pb2.Experiment(hparam_infos=infos, metric_infos=names)
    end = plugin_data_pb2.SessionEndInfo(status=api_pb2.STATUS_SUCCESS)

    def summary(tag: str, **part: Any) -> Any:
        data = plugin_data_pb2.HParamsPluginData(version=metadata.PLUGIN_DATA_VERSION, **part)
        return _one(tag, metadata=_metadata(metadata.PLUGIN_NAME, data.SerializeToString()))

    return [
        summary(metadata.EXPERIMENT_TAG, experiment=experiment),
        summary(metadata.SESSION_START_INFO_TAG, session_start_info=start),
        summary(metadata.SESSION_END_INFO_TAG, session_end_info=end),
    ]


def _hparam_kind(value: Any) -> tuple[Any, Callable[[Any, Any], None]]:
    """The type of a hyperparameter, and what puts a value of that type into a message."""
    from tensorboard.plugins.hparams import api_pb2

    if isinstance(value, bool):
        return api_pb2.DATA_TYPE_BOOL, lambda held, v: setattr(held, "bool_value", v)
    if isinstance(value, str):
        return api_pb2.DATA_TYPE_STRING, lambda held, v: setattr(held, "string_value", v)
    if isinstance(value, (int, float, np.number, Tensor)):
        return api_pb2.DATA_TYPE_FLOAT64, lambda held, v: setattr(held, "number_value", _number(v))
    raise failure(ValueError, "value should be one of int, float, str, bool, or torch.Tensor")
