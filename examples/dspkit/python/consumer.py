"""What a stranger writes who has installed the wheel: type checkers read it, and it runs."""

from __future__ import annotations

import dspkit
import numpy as np
from dspkit.arrays import from_array, to_array

tone = dspkit.sine(440.0, 0.5, amplitude=0.5)
filtered = (dspkit.Biquad.design("Low", 2000.0) | dspkit.Biquad.design(dspkit.Pass.High, 100.0))(tone)
loudest: float = dspkit.spectrum(filtered, window="hamming").loudest()
with dspkit.Recorder("tone.wav") as recorder:
    recorder.write(dspkit.mix([filtered, dspkit.noise(0.5, seed=7) * 0.01]))
again: dspkit.Signal = dspkit.read_wav("tone.wav")
levels: list[float] = [peak.value for peak in sorted(dspkit.peaks(again, limit=3))]
print(f"{loudest:.0f} Hz, {len(again)} samples, highest {max(levels):.2f}, {again}")

# Everything else that a type checker must accept.
chain = dspkit.Chain(stages=(dspkit.Biquad(1.0, 0.0, 0.0, 0.0, a2=0.0),))
chain = chain | dspkit.Biquad.design(pass_ := dspkit.Pass.Band, frequency=1000.0, q=2.0)
count: int = len(chain) + len(tone)
first: dspkit.Biquad = next(iter(chain))
is_there: bool = first in chain and 0.0 in tone
sample: float = tone[0] + tone[-1]
energy: float = sum(value * value for value in tone)
halved: dspkit.Signal = dspkit.apply(tone, lambda value: value / 2)
smoothed = dspkit.convolve(halved, np.full(4, 0.25, np.float32))
parts: tuple[int, ...] = dspkit.spectrogram(tone, size=256, hop=None).shape
weights = dspkit.window("hann", 16).numpy()
array = to_array(from_array(np.arange(4.0), rate=8.0))
same: bool = tone == dspkit.Signal(to_array(tone), rate=tone.rate) and hash(tone) == hash(tone * 1.0)
problem: ValueError | None = None
try:
    louder = tone + dspkit.silence(0.1, rate=8000.0)
except dspkit.RateMismatch as error:
    problem = error
assert count == 24002 and is_there and same and pass_.name == "Band" and parts == (186, 129), (count, parts)
assert smoothed.peak() <= halved.peak() and abs(energy - 24000 / 8) < 1 and weights.shape == (16,) and array.shape == (4,)
assert str(problem).startswith("signals of 48000 and 8000 samples per second") and abs(sample) < 0.1
