"""Signals as NumPy arrays, for programs that have these."""

from __future__ import annotations

from typing import Any

import numpy as np

from .dspkit import Signal

Array = np.ndarray[Any, np.dtype[np.float32]]


def to_array(signal: Signal) -> Array:
    """The samples, which share the signal's memory."""
    return signal.samples.numpy()


def from_array(samples: np.ndarray[Any, Any], rate: float = 48000.0) -> Signal:
    """A signal with a copy of the samples, whatever their type."""
    return Signal(np.array(samples, np.float32), rate)
