"""A network of three dense layers."""

from .. import symbol as sym
from .utils import create_workload


def get_symbol(num_classes=1000):
    """128 and 64 hidden units, then the classes."""
    data = sym.flatten(sym.Variable("data"))
    for number, units in enumerate((128, 64), 1):
        data = sym.relu(sym.dense(data, name=f"fc{number}", units=units))
    return sym.softmax(sym.dense(data, name="fc3", units=num_classes), name="softmax")


def get_workload(batch_size, num_classes=1000, image_shape=(3, 224, 224), dtype="float32"):
    """The network and its parameters."""
    return create_workload(get_symbol(num_classes), batch_size, image_shape, dtype)
