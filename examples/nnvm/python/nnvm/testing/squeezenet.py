"""SqueezeNet (Iandola et al., 2016)."""

from .. import symbol as sym
from .layers import conv
from .utils import create_workload

# Channels and kernel of the first layer. Then the channels of each fire module before it expands them; 0 is a pooling layer.
_VERSIONS = {
    "1.0": (96, 7, (0, 16, 16, 32, 0, 32, 48, 48, 64, 0, 64)),
    "1.1": (64, 3, (0, 16, 16, 0, 32, 32, 0, 48, 48, 64, 64)),
}


def _conv_relu(data, channels, kernel, stride=1):
    return sym.relu(conv(data, None, channels, kernel, stride, use_bias=True))


def get_symbol(num_classes, version, **_options):
    """The network of version "1.0" or "1.1"."""
    if version not in _VERSIONS:
        raise ValueError(f"no SqueezeNet {version}: there are {', '.join(_VERSIONS)}")
    width, kernel, layers = _VERSIONS[version]
    data = _conv_relu(sym.Variable("data"), width, kernel, 2)
    for channels in layers:
        if channels == 0:
            data = sym.max_pool2d(data, pool_size=(3, 3), strides=(2, 2))
        else:
            data = _conv_relu(data, channels, 1)
            data = sym.concatenate(*(_conv_relu(data, 4 * channels, size) for size in (1, 3)), axis=1)
    data = _conv_relu(sym.dropout(data, rate=0.5), num_classes, 1)
    return sym.softmax(sym.flatten(sym.global_avg_pool2d(data)))


def get_workload(batch_size=1, num_classes=1000, version="1.0", image_shape=(3, 224, 224), dtype="float32", **options):
    """The network and its parameters."""
    return create_workload(get_symbol(num_classes, version, **options), batch_size, image_shape, dtype)
