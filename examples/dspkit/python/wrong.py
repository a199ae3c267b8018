"""Mistakes that type checkers find: one in each line from 7 on."""

import dspkit

tone = dspkit.sine(440.0, 0.5)

dspkit.sine("440", 0.5)
dspkit.gain(tone)
dspkit.gain(signal=3, decibels=1.0)
tone.rate = 3.0
dspkit.apply(tone, lambda: 0.0)
dspkit.spectrum(tone, window=3.5)
dspkit.fir
tone | tone
dspkit.Chain([tone])
