"""MobileNet (Howard et al., 2017)."""

from .. import symbol as sym
from .layers import classifier, conv_norm_relu
from .utils import create_workload

# Channels and stride of each separable convolution.
_LAYERS = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)] + [(512, 1)] * 5 + [(1024, 2), (1024, 1)]


def get_symbol(num_classes=1000, alpha=1.0):
    """The network; `alpha` multiplies all channels."""
    width = int(32 * alpha)
    data = conv_norm_relu(sym.Variable("data"), "conv1", width, 3, 2)
    for number, (channels, stride) in enumerate(_LAYERS, 1):
        data = conv_norm_relu(data, f"separable{number}_depthwise", width, 3, stride, groups=width)
        width = int(channels * alpha)
        data = conv_norm_relu(data, f"separable{number}_pointwise", width, 1)
    return classifier(data, num_classes)


def get_workload(batch_size=1, num_classes=1000, image_shape=(3, 224, 224), dtype="float32"):
    """The network and its parameters."""
    return create_workload(get_symbol(num_classes), batch_size, image_shape, dtype)
