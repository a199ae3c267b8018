"""Mistakes that type checkers find with both kinds of wheels: one in each line from 9 on."""

from collections.abc import Hashable

import extmod

clip = extmod.Clip(1.0)

extmod.shifted("1")
extmod.shifted(1.0, 2.0, 3.0)
extmod.sum_of_values(lambda: 1.0, [1.0])
extmod.sum_of_values(lambda x: str(x), [1.0])
extmod.turned(3.5)
extmod.turned("Left", 1.5)
extmod.Clip(1.0, about="x")
extmod.Clip("x")
clip.scaled("3")
clip.scaled(3, 4.5)
clip.x = 2.0
extmod.Clip.parse(3.5)
extmod.literals("1")
extmod.scale_in_place([1.0], 2.0)
extmod.Named(3, "x")
extmod.Odd(1) | 3
extmod.Odd(1)("x")
held: Hashable = clip
extmod.integers(3).append("x")
extmod.append(3, 4)
extmod.basket().prices["x"] = "y"
extmod.signed_keyword(1)
extmod.signed_positional(a=1)
extmod.signed_mixed(1, 2, c=3)
