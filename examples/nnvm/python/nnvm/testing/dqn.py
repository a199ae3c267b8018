"""The deep Q-network (Mnih et al., 2015)."""

from .. import symbol as sym
from .layers import conv
from .utils import create_workload


def get_symbol(num_actions=18):
    """Three convolutions without padding, 512 hidden units, and the value of each action."""
    data = sym.Variable("data")
    for number, (channels, kernel, stride) in enumerate(((32, 8, 4), (64, 4, 2), (64, 3, 1)), 1):
        data = sym.relu(conv(data, f"conv{number}", channels, kernel, stride, pad=0, use_bias=True), name=f"relu{number}")
    data = sym.relu(sym.dense(sym.flatten(data, name="flatten"), units=512, name="fc4"), name="relu4")
    return sym.dense(data, units=num_actions, name="fc5")


def get_workload(batch_size, num_actions=18, image_shape=(4, 84, 84), dtype="float32"):
    """The network and its parameters."""
    return create_workload(get_symbol(num_actions), batch_size, image_shape, dtype)
