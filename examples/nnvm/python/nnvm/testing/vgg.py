"""VGG (Simonyan and Zisserman, 2014)."""

from .. import symbol as sym
from .layers import conv
from .utils import create_workload

_STAGES = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def get_symbol(num_classes=1000, num_layers=11, batch_norm=False):
    """The network of 11, 13, 16 or 19 layers."""
    if num_layers not in _STAGES:
        raise ValueError(f"no VGG of {num_layers} layers: there are {', '.join(map(str, _STAGES))}")
    data = sym.Variable("data")
    for stage, (count, channels) in enumerate(zip(_STAGES[num_layers], (64, 128, 256, 512, 512)), 1):
        for number in range(1, count + 1):
            name = f"conv{stage}_{number}"
            data = conv(data, name, channels, 3, use_bias=True)
            data = sym.batch_norm(data, name=f"{name}_bn") if batch_norm else data
            data = sym.relu(data)
        data = sym.max_pool2d(data, pool_size=(2, 2), strides=(2, 2))
    data = sym.flatten(data)
    for number in (6, 7):
        data = sym.dropout(sym.relu(sym.dense(data, units=4096, name=f"fc{number}")), rate=0.5)
    return sym.softmax(sym.dense(data, units=num_classes, name="fc8"), name="softmax")


def get_workload(batch_size, num_classes=1000, image_shape=(3, 224, 224), dtype="float32", **options):
    """The network and its parameters."""
    return create_workload(get_symbol(num_classes, **options), batch_size, image_shape, dtype)
