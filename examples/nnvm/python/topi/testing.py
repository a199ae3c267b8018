"""Operators in NumPy, as references for tests."""

import numpy as np


def softmax_python(a_np):
    """Softmax along the last axis of a matrix."""
    exp = np.exp(a_np - a_np.max(axis=1, keepdims=True))
    return exp / exp.sum(axis=1, keepdims=True)


def log_softmax_python(a_np):
    """The logarithm of softmax along the last axis of a matrix."""
    moved = a_np - a_np.max(axis=1, keepdims=True)
    return moved - np.log(np.exp(moved).sum(axis=1, keepdims=True))


def lrn_python(a_np, size, axis, bias, alpha, beta):
    """Local response normalization: each element by the sum of squares in a window along an axis."""
    half = (size - 1) // 2
    widths = [(half, size - 1 - half) if number == axis else (0, 0) for number in range(a_np.ndim)]
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(a_np**2, widths), size, axis=axis)
    return a_np / (bias + alpha / size * windows.sum(axis=-1)) ** beta


def l2_normalize_python(a_np, eps, axis=None):
    """Each element by the norm over axes, whose square is at least `eps`."""
    square = (a_np * a_np).sum(axis=axis, keepdims=True)
    return a_np / np.sqrt(np.maximum(square, eps))


def gather_nd_python(a_np, indices_np):
    """The elements (or parts) at positions; the first axis of the indices is that of the coordinates."""
    return a_np[tuple(indices_np.astype("int64"))]


def upsampling_python(data, scale, layout="NCHW"):
    """Each pixel repeated along rows and columns."""
    rows = layout.index("H")
    return data.repeat(scale, axis=rows).repeat(scale, axis=rows + 1)


def _pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


def _padding(padding, kernel):
    """Elements before and behind, for rows and for columns."""
    if isinstance(padding, str):
        if padding not in ("SAME", "VALID"):
            raise ValueError(f"padding is numbers, SAME or VALID, got {padding}")
        total = [size - 1 if padding == "SAME" else 0 for size in kernel]
        return [(one // 2, one - one // 2) for one in total]
    return [(one, one) for one in _pair(padding)]


def _windows(a_np, kernel, stride, padding):
    """All windows: batch, channel, row, column, row in the window, column in it."""
    padded = np.pad(a_np, [(0, 0), (0, 0), *_padding(padding, kernel)])
    rows, columns = _pair(stride)
    return np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(2, 3))[:, :, ::rows, ::columns]


def conv2d_nchw_python(a_np, w_np, stride, padding):
    """A convolution; weights are (results, channels, rows, columns)."""
    return np.einsum("ncyxij,ocij->noyx", _windows(a_np, w_np.shape[2:], stride, padding), w_np)


def depthwise_conv2d_python_nchw(input_np, filter_np, stride, padding):
    """A convolution of each channel by itself; weights are (channels, multiplier, rows, columns)."""
    result = np.einsum("ncyxij,cmij->ncmyx", _windows(input_np, filter_np.shape[2:], stride, padding), filter_np)
    return result.reshape(result.shape[0], -1, *result.shape[3:])


def conv2d_transpose_nchw_python(a_np, w_np, stride, padding):
    """A transposed convolution; weights are (channels, results, rows, columns)."""
    (rows, columns), kernel = _pair(stride), w_np.shape[2:]
    batch, channels, height, width = a_np.shape
    spread = np.zeros((batch, channels, (height - 1) * rows + 1, (width - 1) * columns + 1), dtype=a_np.dtype)
    spread[:, :, ::rows, ::columns] = a_np
    (top, bottom), (left, right) = _padding(padding, kernel)
    room = [(0, 0), (0, 0), (kernel[0] - 1 - top, kernel[0] - 1 - bottom), (kernel[1] - 1 - left, kernel[1] - 1 - right)]
    return conv2d_nchw_python(np.pad(spread, room), w_np[:, :, ::-1, ::-1].transpose(1, 0, 2, 3), 1, 0)
