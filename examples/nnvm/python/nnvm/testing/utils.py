"""Networks with random parameters."""

import numpy as np
import tvm

from .. import graph as _graph
from ..compiler import graph_util
from .init import Xavier


def create_workload(net, batch_size, image_shape=(3, 224, 224), dtype="float32", initializer=None, seed=0):
    """The network and its parameters (arrays by name), drawn with a seed; the input is the variable `data`."""
    image_shape = image_shape if image_shape is not None else (3, 224, 224)
    graph = _graph.create(net)
    shapes, _ = graph_util.infer_shape(graph, data=(batch_size, *image_shape))
    types, _ = graph_util.infer_dtype(graph, data=dtype)
    initializer = initializer or Xavier()
    np.random.seed(seed)
    params = {}
    for name, shape, of in zip(graph.index.input_names, shapes, types):
        if name != "data":
            value = np.zeros(shape, dtype=of)
            initializer(name, value)
            params[name] = tvm.nd.array(value)
    return net, params
