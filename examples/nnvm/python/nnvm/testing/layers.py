"""Layers that several networks share."""

from .. import symbol as sym


def conv(data, name, channels, kernel, stride=1, pad=None, groups=1, use_bias=False):
    """A convolution with a square kernel; by default its padding keeps the size."""
    pad = kernel // 2 if pad is None else pad
    return sym.conv2d(
        data, name=name, channels=channels, kernel_size=(kernel, kernel), strides=(stride, stride), padding=(pad, pad),
        groups=groups, use_bias=use_bias,
    )  # fmt: skip


def conv_norm_relu(data, name, channels, kernel, stride=1, pad=None, groups=1):
    """A convolution, batch_norm and relu."""
    data = conv(data, f"{name}_conv", channels, kernel, stride, pad, groups)
    return sym.relu(sym.batch_norm(data, epsilon=1e-5, name=f"{name}_bn"), name=f"{name}_relu")


def classifier(data, num_classes):
    """The mean of each channel, a dense layer, softmax."""
    data = sym.flatten(sym.global_avg_pool2d(data, name="pool1"))
    return sym.softmax(sym.dense(data, units=num_classes, name="fc1"), name="softmax")
