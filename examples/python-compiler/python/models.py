"""Models in Python: files of ONNX, or modules of PyTorch, become functions of NumPy arrays, and shared libraries.

    model = models.from_onnx("model.onnx", dims={"batch": 1})
    run = models.compile(model)
    scores = run(x)
    run.export_library("libmodel.so")

`kernpack.graph.from_onnx` reads a model, and its method `lower` makes a program of it; this file adds what is usual in Python to that.
"""

import inspect
import io

import numpy as np
import tvm_ffi
from compiler import PassContext, build, graph, module


def from_onnx(source, *, dims=None, dims_up_to=None, dims_in=None, dims_range=None, dims_sum=None, inputs=None, constants=None, sequences=None, bounds=None, absent=(), outputs=(), operators=None, weights=None, allow_nan=False, plain=False):
    """A model of ONNX, by the path of its file or by its bytes: a `kernpack.graph.Model`.

    `dims` has extents by the names of dimensions, `inputs` shapes by the names of inputs, for what the file leaves open. `dims_up_to={"batch": 64}` leaves a batch to
    each call, up to a bound, and `dims_in={"sequence": [32, 64]}` compiles the model for several extents, one of which each call has.
    `dims_range={"batch": [1, 8], "height": [32, 2048, 32]}` compiles it once for all extents of several dimensions: a batch of 1 to 8, heights that are multiples of 32. `dims_sum={"total": "past + tokens"}` says that a dimension follows from others. `constants` has arrays for inputs that
    always have this value. `sequences` has lists of shapes for inputs that are sequences; `bounds` the most rounds of loops by the names of their nodes,
    where only a call tells how many rounds there are; `absent` names optional inputs that are not there. `outputs` names the
    values that are wanted; without it, all outputs of the model. `operators` says what operators compute that ONNX does not have, by `"domain.name"`: a function of the
    attributes of a node and of its inputs as tensors of `compiler.te`, or a pair of it and how the operator is fused, such as `"elementwise"`. `weights="float16"` (or `"bfloat16"`) keeps weights of products and convolutions in half as many bytes. `allow_nan=True` takes weights that are not numbers. `plain=True` leaves
    nodes as the model has them, where others would do the same faster.
    """
    options = {
        "dims": dict(dims or {}),
        "dims_up_to": dict(dims_up_to or {}),
        "dims_in": {name: list(extents) for name, extents in (dims_in or {}).items()},
        "dims_range": {name: list(extents) for name, extents in (dims_range or {}).items()},
        "dims_sum": dict(dims_sum or {}),
        "inputs": {name: tvm_ffi.Shape(shape) for name, shape in (inputs or {}).items()},
        "constants": {name: tvm_ffi.from_dlpack(np.array(value, order="C")) for name, value in (constants or {}).items()},
        "sequences": {name: [tvm_ffi.Shape(shape) for shape in shapes] for name, shapes in (sequences or {}).items()},
        "bounds": bounds or {},
        "absent": list(absent),
        "outputs": list(outputs),
        "operators": dict(operators or {}),
        "allow_nan": allow_nan,
        "plain": plain,
    }
    if weights is not None:
        options["weights"] = tvm_ffi.dtype(weights)
    return graph.from_onnx(source if isinstance(source, bytes) else str(source), options)


def from_torch(network, example=(), *, opset=17, **options):
    """A network of PyTorch, called with the tensors of the tuple `example`: exported to ONNX, and read. Shapes are those of the example.

    A program that `torch.export.export` made needs no example; PyTorch writes it as ONNX with the package `onnxscript`, in version 18 of the operators or a newer one.
    """
    import torch

    if isinstance(network, getattr(getattr(torch, "export", None), "ExportedProgram", ())):
        return from_onnx(_exported(torch, network, max(opset, 18)), **options)
    file = io.BytesIO()
    # The exporter that traces a call of the network needs only PyTorch; newer versions have another one as well.
    newer = "dynamo" in inspect.signature(torch.onnx.export).parameters
    was_training = network.training
    network.eval()
    try:
        torch.onnx.export(network, tuple(example), file, opset_version=opset, **({"dynamo": False} if newer else {}))
    finally:
        network.train(was_training)
    return from_onnx(file.getvalue(), **options)


def _exported(torch, program, opset):
    """The bytes of the model that a program of torch.export is in ONNX."""
    try:
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ImportError("PyTorch writes a program of torch.export as ONNX with the package onnxscript: pip install onnxscript") from error
    return torch.onnx.export(program, dynamo=True, opset_version=opset).model_proto.SerializeToString()


def compile(model, name="run", target="llvm", *, opt_level=3, context=None):
    """The model as a function. With `opt_level` 1 each node is a kernel, with 0 each by plain loops: to find the one that is slow or wrong. A context has passes and rules."""
    return Compiled(model, name, target, opt_level, context or PassContext())


class Compiled:
    """A model that is compiled. A call takes arrays, by position or by name, and gives one array, or a tuple of them."""

    def __init__(self, model, name, target, opt_level, context):
        self.model, self.name = model, name
        #: The entry and the kernels, before code generation.
        self.program = model.lower(name, target, context, opt_level)
        #: What the rules of the compiler say of the kernels.
        self.notes = list(context.take_notes())
        self.module = build(self.program, target)
        self._function = self.module.get_function(name)

    def __call__(self, *values, **by_name):
        names = [argument.name for argument in self.model.inputs]
        given = dict(zip(names, values))
        if len(values) > len(names) or given.keys() & by_name or given.keys() | by_name.keys() != set(names):
            raise TypeError(f"{self.name} takes {', '.join(names)}; got {len(values)} values by position, and {', '.join(by_name) or 'none'} by name")
        given.update(by_name)
        taken = [np.asarray(given[argument.name], _dtype(argument), order="C") for argument in self.model.inputs]
        shapes = self.model.output_shapes([tvm_ffi.Shape(value.shape) for value in taken])
        written = {argument.name: np.empty(tuple(shape), _dtype(argument)) for argument, shape in zip(self.model.outputs, shapes)}
        self._function(*taken, *written.values())
        extents = {argument.extents for argument in self.model.outputs}
        results = [_cut(argument, written) for argument in self.model.outputs if argument.name not in extents]
        return results[0] if len(results) == 1 else tuple(results)

    def export_library(self, path, flags=()):
        """Writes a shared library with the function. It needs no compiler where it is loaded: `tvm_ffi.load_module(path).run(*inputs, *outputs)`."""
        module.export_library(self.module, str(path), list(flags))


def _dtype(argument):
    try:
        return np.dtype(str(argument.dtype))
    except TypeError as error:
        raise TypeError(f"'{argument.name}' is {argument.dtype}, which NumPy does not have") from error


def _cut(argument, written):
    """An output without the part behind its extents, if these depend on data."""
    result = written[argument.name]
    return result if argument.extents is None else result[tuple(slice(extent) for extent in written[argument.extents])]
