"""Times each kernel beside NumPy and draws where both are under the roof of the machine.

    python examples/tensor-kernels/python/roofline.py LIBRARY

writes the table into examples/tensor-kernels/README.md and the plot beside it. Everything runs in one thread.
"""

import functools
import math
import os
import platform
import sys
import time
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "TVM_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402
import tvm_ffi  # noqa: E402
from scipy.special import erf  # noqa: E402

FOLDER = Path(__file__).parent.parent
ROUNDS, LONG_ENOUGH = 200, 1e-3
OURS, PEER, INK, GRID = "#2563eb", "#9ca3af", "#1f2937", "#e5e7eb"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 560, 70, 30, 40, 50


def random(*shape, seed=0):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32)


def softmax_of(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def dense_gelu():
    a, w, bias = random(256, 256), random(512, 256, seed=1), random(512)

    def peer():
        x = a @ w.T + bias
        return 0.5 * x * (1 + erf(x * np.float32(math.sqrt(0.5))))

    return (a, w, bias), [peer], 2 * 256 * 512 * 256 + 6 * 256 * 512


def conv2d():
    x, weights = random(1, 56, 56, 64), random(3, 3, 64, 64)

    def peer():
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        rows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2)).transpose(0, 1, 2, 4, 5, 3)
        return (rows.reshape(56 * 56, 576) @ weights.reshape(576, 64)).reshape(1, 56, 56, 64)

    return (x, weights), [peer], 2 * 56 * 56 * 64 * 64 * 9


def softmax():
    x = random(1024, 1024)
    return (x,), [lambda: softmax_of(x)], 5 * x.size


def layer_norm():
    x, scale, shift = random(1024, 1024), random(1024), random(1024, seed=1)

    def peer():
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(1e-5)) * scale + shift

    return (x, scale, shift), [peer], 8 * x.size


def attention():
    q, k, v = random(128, 64), random(128, 64, seed=1), random(128, 64, seed=2)
    return (q, k, v), [lambda: softmax_of(q @ k.T * np.float32(0.125)) @ v], 4 * 128 * 128 * 64 + 6 * 128 * 128


def heat_step():
    x = random(1024, 1024)

    def peer():
        out = x.copy()
        inner = x[1:-1, 1:-1]
        around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
        out[1:-1, 1:-1] += (around - 4 * inner) * np.float32(0.1)
        return out

    return (x, 0.1), [peer], 7 * x.size


def running_sum():
    x = random(1024, 1024)
    return (x,), [lambda: np.cumsum(x, axis=0)], x.size


def row_argmax():
    x = random(1024, 1024)
    return (x,), [lambda: x.argmax(-1), lambda: x.max(-1)], x.size


def histogram():
    x = np.random.default_rng(0).integers(0, 256, 1 << 20).astype(np.uint8)
    return (x,), [lambda: np.bincount(x, minlength=256).astype(np.int32)], x.size


def resize():
    image = random(512, 512, 3)

    def doubled(image, axis):
        size = image.shape[axis]
        before, after = np.clip([np.arange(-1, size), np.arange(0, size + 1)], 0, size - 1)
        low, high = image.take(before, axis), image.take(after, axis)
        near, far = 0.75 * low + 0.25 * high, 0.25 * low + 0.75 * high
        pairs = np.stack([near, far], axis + 1)
        shape = (*image.shape[:axis], 2 * size + 2, *image.shape[axis + 1 :])
        return pairs.reshape(shape).take(np.arange(1, 2 * size + 1), axis).astype(np.float32)

    return (image,), [lambda: doubled(doubled(image, 0), 1)], 9 * 4 * image.size


KERNELS = [dense_gelu, conv2d, softmax, layer_norm, attention, heat_step, running_sum, row_argmax, histogram, resize]


def seconds(call):
    """Time of one call, of as many as take long enough."""
    count, start, end = 0, time.perf_counter(), 0.0
    while end < start + LONG_ENOUGH:
        call()
        count += 1
        end = time.perf_counter()
    return (end - start) / count


def best(calls):
    """The shortest time of each. A round has all of them: what other programs of the machine take away is spread over all."""
    times = {name: math.inf for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times[name] = min(times[name], seconds(call))
    return times


def roof():
    """What shows the limits of the machine: a large matrix product, a copy; with GFLOP and GB."""
    a, b, c = random(512, 512), random(512, 512, seed=1), np.empty((512, 512), np.float32)
    x, y = random(1024, 1024), np.empty((1024, 1024), np.float32)
    return (lambda: np.matmul(a, b, out=c), 2 * 512**3 / 1e9), (lambda: np.copyto(y, x), 2 * x.nbytes / 1e9)


def measure(library):
    """GFLOP/s and GB/s of the machine, and a row for each kernel: name, flop per byte, GFLOP/s of ours and of NumPy, microseconds of both."""
    (product, flops), (copy, moved) = roof()
    calls, sizes = {"product": product, "copy": copy}, {}
    for make in KERNELS:
        arguments, peers, operations = make()
        wanted = [peer() for peer in peers]
        outs = [np.empty(result.shape, result.dtype) for result in wanted]
        kernel = library.get_function(make.__name__)
        lent = [tvm_ffi.from_dlpack(x) if isinstance(x, np.ndarray) else x for x in (*arguments, *outs)]
        kernel(*lent)
        for out, result in zip(outs, wanted, strict=True):
            np.testing.assert_allclose(out, result, rtol=2e-4, atol=2e-4)
        arrays = [x for x in (*arguments, *outs) if isinstance(x, np.ndarray)]
        sizes[make.__name__] = operations, sum(x.nbytes for x in arrays)
        calls["ours", make.__name__] = functools.partial(kernel, *lent)
        calls["peer", make.__name__] = lambda peers=peers: [peer() for peer in peers]
    times = best(calls)
    rows = []
    for name, (operations, size) in sizes.items():
        ours, peer = times["ours", name], times["peer", name]
        rows.append((name, operations / size, operations / ours / 1e9, operations / peer / 1e9, ours * 1e6, peer * 1e6))
    return flops / times["product"], moved / times["copy"], rows


def draw(rows, flops, bandwidth):
    """The picture: performance over intensity, both logarithmic."""
    xs, ys = [row[1] for row in rows], [value for row in rows for value in row[2:4]]
    span = [(math.floor(math.log10(min(v))), math.ceil(math.log10(2 * max(v)))) for v in (xs, [*ys, flops])]
    places = (LEFT, WIDTH - RIGHT), (HEIGHT - BOTTOM, TOP)

    def at(axis, value):
        (low, high), (start, end) = span[axis], places[axis]
        return start + (math.log10(value) - low) / (high - low) * (end - start)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="system-ui, sans-serif" font-size="12" role="img">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="8" y="20" font-size="13" font-weight="bold" fill="{INK}">Ten kernels under the roof of one thread: ours (blue), NumPy (grey)</text>',
    ]

    def text(x, y, content, anchor="middle", color=INK):
        parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}">{content}</text>')

    def line(x1, y1, x2, y2, color, width=1):
        parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" stroke-width="{width}"/>')

    for axis, (low, high) in enumerate(span):
        for power in range(low, high + 1):
            place = at(axis, 10.0**power)
            if axis == 0:
                line(place, TOP, place, HEIGHT - BOTTOM, GRID)
                text(place, HEIGHT - BOTTOM + 18, f"{10.0**power:g}")
            else:
                line(LEFT, place, WIDTH - RIGHT, place, GRID)
                text(LEFT - 8, place + 4, f"{10.0**power:g}", "end")
    text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "operations for each byte of arguments")
    parts.append(f'<text transform="translate(16 {HEIGHT / 2}) rotate(-90)" text-anchor="middle" fill="{INK}">GFLOP/s</text>')
    ridge = flops / bandwidth
    left = max(10.0 ** span[0][0], 10.0 ** span[1][0] / bandwidth)
    line(at(0, left), at(1, left * bandwidth), at(0, ridge), at(1, flops), INK, 2)
    line(at(0, ridge), at(1, flops), WIDTH - RIGHT, at(1, flops), INK, 2)
    taken = []

    def label(x, y, content, choices):
        """Writes at the first place beside a point where nothing is yet."""
        width = 7 * len(content)
        for dx, dy, anchor in choices:
            start = x + dx - (width if anchor == "end" else 0)
            box = (start, y + dy - 11, start + width, y + dy + 3)
            if all(box[2] < other[0] or other[2] < box[0] or box[3] < other[1] or other[3] < box[1] for other in taken):
                break
        taken.append(box)
        text(x + dx, y + dy, content, anchor)

    for _, intensity, ours, peer, *_ in rows:
        x = at(0, intensity)
        line(x, at(1, peer), x, at(1, ours), PEER)
        for value, radius, color in (peer, 4, PEER), (ours, 5, OURS):
            y = at(1, value)
            taken.append((x - radius, y - radius, x + radius, y + radius))
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{color}"/>')
    label(WIDTH - RIGHT, at(1, flops), f"{flops:.0f} GFLOP/s: a product of 512^3 by OpenBLAS", [(-4, -6 - 12 * n, "end") for n in range(5)])
    label(at(0, left), at(1, left * bandwidth), f"{bandwidth:.0f} GB/s: a copy of 4 MiB", [(8, -80, "start")])
    for step in range(40):
        # The roof, in short pieces, is not written over either.
        intensity = 10 ** (span[0][0] + (span[0][1] - span[0][0]) * step / 40)
        x, y = at(0, intensity), at(1, min(flops, max(intensity * bandwidth, 10.0 ** span[1][0])))
        taken.append((x, y - 2, x + (WIDTH - LEFT - RIGHT) / 40, y + 2))
    for name, intensity, ours, *_ in rows:
        beside = [(8, 4, "start"), (-8, 4, "end"), (8, 18, "start"), (-8, 18, "end"), (8, 32, "start"), (-8, -10, "end")]
        label(at(0, intensity), at(1, ours), name, beside)
    return "\n".join([*parts, "</svg>", ""])


def cpu():
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def main():
    library = tvm_ffi.load_module(sys.argv[1])
    flops, bandwidth, rows = measure(library)
    table = "| kernel | operations per byte | ours, µs | NumPy, µs | ours, GFLOP/s | ours / NumPy |\n|---|---:|---:|---:|---:|---:|\n" + "".join(
        f"| `{name}` | {intensity:.2f} | {us:.1f} | {peer_us:.1f} | {rate:.1f} | {us / peer_us:.2f} |\n"
        for name, intensity, rate, _, us, peer_us in rows
    )
    said = f"One thread of {cpu()}, NumPy {np.__version__}; the shortest of {ROUNDS} interleaved rounds. A copy of 4 MiB moves {bandwidth:.0f} GB/s, a product of 512^3 computes {flops:.0f} GFLOP/s."
    said += f" The load of the last minute was {os.getloadavg()[0]:.0f} on {os.cpu_count()} CPUs.\n"
    readme = FOLDER / "README.md"
    before, rest = readme.read_text().split("\n## Measured\n\n")
    after = rest.split("\n## ", 1)
    picture = "![Ten kernels under the roof of one thread](roofline.svg)\n"
    tail = f"\n## {after[1]}" if len(after) > 1 else ""
    readme.write_text(f"{before}\n## Measured\n\n{said}\n{picture}\n{table}{tail}")
    (FOLDER / "roofline.svg").write_text(draw(rows, flops, bandwidth))


if __name__ == "__main__":
    main()
