"""Files that TensorBoard shows, as `torch.utils.tensorboard`: what a program wants to see of its training.

In: numbers, tensors, images, texts under names, with the number of a step. Out: a folder with files of
events, which the `tensorboard` library writes in a thread of its own. `summaries.py` makes the messages.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.public import locate
from fusegrad.eager.utils import summaries

__all__ = ["FileWriter", "SummaryWriter"]


def _default_bins() -> list[float]:
    """Bins that grow by a tenth, away from 0 on both sides."""
    ends, end = [], 1e-12
    while end < 1e20:
        ends.append(end)
        end *= 1.1
    return [-e for e in reversed(ends)] + [0] + ends


class FileWriter:
    """A file of events in a folder. Source: `torch.utils.tensorboard.FileWriter`."""

    def __init__(
        self, log_dir: Any, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = ""
    ) -> None:
        summaries.messages()
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self.event_writer = EventFileWriter(os.fspath(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder."""
        return self.event_writer.get_logdir()

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Write a message of the library's type `Event`."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Any, global_step: Any = None, walltime: float | None = None) -> None:
        """Write a message of the library's type `Summary`."""
        from tensorboard.compat.proto.event_pb2 import Event

        self.add_event(Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Have all that was added so far on the disk."""
        self.event_writer.flush()

    def close(self) -> None:
        """Write the rest, and close the file."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Go on in a new file."""
        self.event_writer.reopen()


class SummaryWriter:
    """Writes what TensorBoard shows. Source: `torch.utils.tensorboard.SummaryWriter`.

    log_dir: the folder; runs/ with the time, the machine's name and `comment` where none is given.
    purge_step: TensorBoard is to forget steps from this one on, which an earlier run wrote there.
    Raises ImportError where the tensorboard library is not installed (`pip install fusegrad[tensorboard]`).

    >>> import tempfile
    >>> from fusegrad.utils.tensorboard import SummaryWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with SummaryWriter(folder) as writer:
    ...         writer.add_scalar("loss", 0.25, 1)
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = log_dir
        self.purge_step = purge_step
        self.max_queue, self.flush_secs, self.filename_suffix = max_queue, flush_secs, filename_suffix
        self.default_bins = _default_bins()
        # By folder; the first is that of log_dir. None when closed.
        self.all_writers: dict[str, FileWriter] | None = None
        self._get_file_writer()

    def _opened(self, folder: Any) -> FileWriter:
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def _get_file_writer(self) -> FileWriter:
        """The writer of log_dir, opened anew after `close`."""
        if self.all_writers is None:
            self.file_writer = self._opened(self.log_dir)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                self._purge(self.file_writer, self.purge_step)
                self.purge_step = None
        return self.file_writer

    def _purge(self, writer: FileWriter, step: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        writer.add_event(Event(step=step, file_version="brain.Event:2"))
        writer.add_event(Event(step=step, session_log=SessionLog(status=SessionLog.START)))

    def _add(self, summary: Any, global_step: Any = None, walltime: float | None = None) -> None:
        self._get_file_writer().add_summary(summary, global_step, walltime)

    def get_logdir(self) -> Any:
        """The folder."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Add a number; `new_style`: as a tensor, which `double_precision` does not round to float32."""
        self._add(summaries.scalar(tag, scalar_value, new_style, double_precision), global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add numbers to one chart; each is a run of its own, in a folder below."""
        walltime = time.time() if walltime is None else walltime
        folder = self._get_file_writer().get_logdir()
        writers = self.all_writers
        assert writers is not None
        for tag, value in tag_scalar_dict.items():
            place = f"{folder}/{main_tag.replace('/', '_')}_{tag}"
            if place not in writers:
                writers[place] = self._opened(place)
            writers[place].add_summary(summaries.scalar(main_tag, value), global_step, walltime)

    def add_tensor(
        self, tag: str, tensor: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Add all values of a tensor."""
        self._add(summaries.tensor(tag, tensor), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Add how often values come; `bins`: as of `numpy.histogram`, or "tensorflow" for growing ones."""
        if isinstance(bins, str) and bins == "tensorflow":
            bins = self.default_bins
        self._add(summaries.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: float,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add a histogram that is counted already."""
        if len(bucket_limits) != len(bucket_counts):
            raise failure(ValueError, "len(bucket_limits) != len(bucket_counts), see the document.")
        made = summaries.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self._add(made, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Add an image, of bytes or of numbers from 0 to 1."""
        self._add(summaries.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Add a batch of images as one."""
        self._add(summaries.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: Any = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Add what a matplotlib figure, or a list of them, shows."""
        if isinstance(figure, list):
            images = np.stack([summaries.figure_values(one, close) for one in figure])
            self.add_image(tag, images, global_step, walltime, dataformats="NCHW")
        else:
            self.add_image(tag, summaries.figure_values(figure, close), global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: Any = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Add a sound, of numbers from -1 to 1."""
        self._add(summaries.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Add a text, which TensorBoard reads as Markdown."""
        self._add(summaries.text(tag, text_string), global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add the precision and the recall of predicted chances of what is labelled."""
        made = summaries.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._add(made, global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add a curve of precision and recall that is computed already."""
        rows = (true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts)
        made = summaries.pr_curve_raw(tag, (*rows, precision, recall), num_thresholds)
        self._add(made, global_step, walltime)

    def add_custom_scalars(self, layout: dict[str, dict[str, Sequence[Any]]]) -> None:
        """Say which scalars share a chart: {category: {title: ["Multiline" or "Margin", tags]}}."""
        self._add(summaries.custom_scalars(layout))

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Have scalars share a chart."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Have a scalar, its lower and its upper bound share a chart."""
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """Add a run that can be compared with others: what was chosen for it, and how it came out."""
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise failure(TypeError, "hparam_dict and metric_dict should be dictionary.")
        made = summaries.hparams(hparam_dict, metric_dict, hparam_domain_discrete or {})
        folder = os.path.join(self._get_file_writer().get_logdir(), run_name or str(time.time()))
        with SummaryWriter(folder) as writer:
            for summary in made:
                writer._add(summary, global_step)
            for tag, value in metric_dict.items():
                writer.add_scalar(tag, value, global_step)

    def add_graph(self, model: Any, *_: Any, **__: Any) -> None:
        """Refused: TensorBoard's graphs are TensorFlow's."""
        raise self._refused("add_graph", "fg.export writes a program's graph as a page, or as .onnx")

    def add_onnx_graph(self, prototxt: Any) -> None:
        """Refused, as `add_graph` is."""
        raise self._refused("add_onnx_graph", "programs that show .onnx files read them as they are")

    def add_video(self, tag: str, vid_tensor: Any, *_: Any, **__: Any) -> None:
        """Refused: nothing here writes videos."""
        raise self._refused("add_video", "add_images shows the pictures of one side by side")

    def add_embedding(self, mat: Any, *_: Any, **__: Any) -> None:
        """Refused: files of the projector are not written."""
        raise self._refused("add_embedding", "add_tensor keeps the values")

    def add_mesh(self, tag: str, vertices: Any, *_: Any, **__: Any) -> None:
        """Refused: meshes are not written."""
        raise self._refused("add_mesh", "add_figure shows what matplotlib draws")

    def add_image_with_boxes(self, tag: str, img_tensor: Any, box_tensor: Any, *_: Any, **__: Any) -> None:
        """Refused: nothing here draws boxes."""
        raise self._refused("add_image_with_boxes", "add_figure shows what matplotlib draws")

    def _refused(self, name: str, instead: str) -> Exception:
        return failure(NotImplementedError, f"SummaryWriter.{name} is not there; {instead}")

    def flush(self) -> None:
        """Have all that was added so far on the disk."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Write the rest, and close all files; what is added later goes into new ones."""
        for writer in (self.all_writers or {}).values():
            writer.close()
        self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


locate("fusegrad.utils.tensorboard", globals(), __all__)
