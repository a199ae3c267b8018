"""ResNet with pre-activation (He et al., 2016: "Identity Mappings in Deep Residual Networks")."""

from .. import symbol as sym
from .layers import classifier, conv
from .utils import create_workload

_UNITS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


def _norm_relu(data, name):
    return sym.relu(sym.batch_norm(data, epsilon=2e-5, name=f"{name}_bn"), name=f"{name}_relu")


def _unit(data, name, channels, stride, same_size, bottleneck):
    first = _norm_relu(data, f"{name}_1")
    if bottleneck:
        layers = [(channels // 4, 1, 1), (channels // 4, 3, stride), (channels, 1, 1)]
    else:
        layers = [(channels, 3, stride), (channels, 3, 1)]
    result = first
    for number, (width, kernel, step) in enumerate(layers, 1):
        result = result if number == 1 else _norm_relu(result, f"{name}_{number}")
        result = conv(result, f"{name}_conv{number}", width, kernel, step)
    shortcut = data if same_size else conv(first, f"{name}_sc", channels, 1, stride)
    return sym.elemwise_add(result, shortcut)


def get_symbol(num_classes, num_layers=18, image_shape=(3, 224, 224)):
    """The network for large images (224), or with a smaller first layer for images up to 32."""
    if num_layers not in _UNITS:
        raise ValueError(f"no ResNet of {num_layers} layers: there are {', '.join(map(str, _UNITS))}")
    bottleneck = num_layers >= 50
    widths = (256, 512, 1024, 2048) if bottleneck else (64, 128, 256, 512)
    data = sym.batch_norm(sym.Variable("data"), epsilon=2e-5, scale=False, name="bn_data")
    if image_shape[1] <= 32:
        data = conv(data, "conv0", 64, 3)
    else:
        data = _norm_relu(conv(data, "conv0", 64, 7, 2), "stage0")
        data = sym.max_pool2d(data, pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
    for stage, (units, width) in enumerate(zip(_UNITS[num_layers], widths), 1):
        for unit in range(1, units + 1):
            stride = 2 if unit == 1 and stage > 1 else 1
            data = _unit(data, f"stage{stage}_unit{unit}", width, stride, unit > 1, bottleneck)
    return classifier(_norm_relu(data, "last"), num_classes)


def get_workload(batch_size=1, num_classes=1000, num_layers=18, image_shape=(3, 224, 224), dtype="float32", **options):
    """The network and its parameters."""
    net = get_symbol(num_classes, num_layers, image_shape)
    return create_workload(net, batch_size, image_shape, dtype, **options)
