"""Types and functions inside of classes, which only the library itself has as a module: run, and read by type checkers."""

import extmod

shade: extmod.Shade = extmod.Shade.Light
mix: extmod.Shade.Mix = extmod.Shade.mixed(shade, "All")
part: float = mix.part
made = extmod.Shade.Mix(first="Dark", part=part)
first: extmod.Shade = made.first
limit: int = int(extmod.Shade.Mix.Limit.All)
assert (part, first, isinstance(mix, extmod.Shade.Mix), limit) == (1.0, extmod.Shade.Dark, True, 1)
