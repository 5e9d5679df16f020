"""Capturing a run: the twin runs, the observer watches, the recorder takes down what is computed."""

from fusegrad.tracer.capture.api import Capture, Reason, capture

__all__ = ["Capture", "Reason", "capture"]
