"""Capturing a run: the twin runs, the observer watches, the recorder takes down what is computed."""

from fusegrad.tracer.capture.api import capture
from fusegrad.tracer.capture.captured import Capture, Reason

__all__ = ["Capture", "Reason", "capture"]
