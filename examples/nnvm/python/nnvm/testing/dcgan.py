"""The generator of DCGAN (Radford et al., 2015)."""

from .. import symbol as sym
from .utils import create_workload


def _enlarge(data, name, channels):
    """A transposed convolution that doubles height and width."""
    return sym.conv2d_transpose(
        data, name=f"{name}_deconv", channels=channels, kernel_size=(4, 4), strides=(2, 2), padding=(1, 1), use_bias=False
    )


def get_symbol(oshape, ngf=128, code=None):
    """The network for images of 64 by 64: from 4 by 4, each layer doubles them. `ngf` are the channels before the last layer."""
    if tuple(oshape[-2:]) != (64, 64):
        raise ValueError(f"oshape is to end in (64, 64), got {tuple(oshape)}")
    data = sym.Variable("data") if code is None else code
    data = sym.relu(sym.dense(data, units=4 * 4 * ngf * 8, use_bias=False, name="g1"))
    data = sym.reshape(data, shape=(-1, ngf * 8, 4, 4))
    for name, channels in (("g2", ngf * 4), ("g3", ngf * 2), ("g4", ngf)):
        data = sym.batch_norm(_enlarge(data, name, channels), epsilon=1e-5 + 1e-12, name=f"{name}_bn")
        data = sym.relu(data, name=f"{name}_act")
    return sym.tanh(_enlarge(data, "g5", oshape[-3]))


def get_workload(batch_size, oshape=(3, 64, 64), ngf=128, random_len=100, dtype="float32"):
    """The network and its parameters. The input are `random_len` numbers for each image."""
    return create_workload(get_symbol(oshape, ngf), batch_size, (random_len,), dtype)
