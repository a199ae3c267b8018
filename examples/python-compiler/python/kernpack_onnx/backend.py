"""Kernpack by ONNX's backend interface (`onnx.backend.base`), which its tests and its scoreboard call.

    import kernpack_onnx.backend as backend

    scores, = backend.run_model(onnx.load("model.onnx"), [x])

A model is compiled when it is prepared, or, where its file leaves open what a kernel has to know (extents, axes, lengths of sequences), at the first call with other
ones. PYTHON_COMPILER_LIBRARY names the library with the compiler.
"""

import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep

from . import values
from .known import inputs_to_know

import models  # isort: skip
from compiler import graph  # isort: skip

#: The number of cached variants of a model: compiled for different extents or values of inputs that must be known.
VARIANTS = 16


class KernpackRep(BackendRep):
    """A model that is ready to run. `run` takes arrays in the order of the model's inputs, or by their names, and gives a tuple of the outputs."""

    def __init__(self, model):
        self._bytes = model.SerializeToString()
        known = {tensor.name for tensor in model.graph.initializer} | {tensor.values.name for tensor in model.graph.sparse_initializer}
        self._inputs = [values.Value(info) for info in model.graph.input]
        self._outputs = [values.Value(info) for info in model.graph.output]
        #: Names of inputs with a value in the file, which a call may omit.
        self._defaults = known
        self._needed = inputs_to_know(model)
        #: Names of inputs that may also be constants, for nodes whose need for a known input only shows at compile time.
        self._counts = {value.name for value in self._inputs if value.is_count and value.name not in known}
        self._variants = {}
        self._texts = None
        if any(value.is_text for value in self._inputs + self._outputs):
            self._texts = graph.text_model(self._bytes)
        else:
            self._compile_early()

    def _compile_early(self):
        """Compiles a model that leaves nothing open, and says of all others what no call would change."""
        needed = [value for value in self._inputs if value.name not in self._defaults]
        try:
            if any(value.is_open or value.name in self._needed for value in needed):
                if not any(value.is_optional for value in needed):
                    graph.from_onnx(self._bytes, {})
            else:
                self._variant({value.name: None for value in needed})
        except ValueError as error:
            is_open = any(value.is_open or value.name in self._needed for value in needed)
            if not is_open or any(word in str(error) for word in ("operators={", "the newest that is supported", "supported are")):
                raise

    def run(self, inputs, **kwargs):
        """The outputs for these inputs."""
        if kwargs:
            raise TypeError(f"run takes inputs only, got {', '.join(sorted(kwargs))} as well")
        given = self._by_name(inputs)
        if self._texts is not None:
            results = self._texts.run([values.to_texts(given[str(name)]) for name in self._texts.inputs])
            by_name = dict(zip(map(str, self._texts.outputs), map(values.from_texts, results)))
            return tuple(by_name[value.name] for value in self._outputs)
        return self._variant(given)(given)

    def _by_name(self, inputs):
        """The inputs by name, each as an array of the type that the model says, or a list of them."""
        needed = [value for value in self._inputs if value.name not in self._defaults]
        if isinstance(inputs, dict):
            named = dict(inputs)
        else:
            inputs = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
            # As in ONNX, inputs with a value in the file may be omitted at any position.
            order = needed if len(inputs) <= len(needed) else self._inputs
            if len(inputs) > len(order):
                raise TypeError(f"the model takes {len(order)} inputs ({_names(order)}), got {len(inputs)}")
            named = dict(zip((value.name for value in order), inputs))
        unknown = named.keys() - {value.name for value in self._inputs}
        if unknown:
            raise TypeError(f"the model has no input {_quoted(unknown)}; it has: {_names(self._inputs) or 'none'}")
        missing = [value.name for value in needed if value.name not in named and not value.is_optional]
        if missing:
            raise TypeError(f"{_quoted(missing)} is missing: the model takes {_names(needed)}")
        by_name = {value.name: value for value in self._inputs}
        given = {name: by_name[name].check(value) for name, value in named.items()}
        given.update({value.name: None for value in needed if value.name not in named})
        return given

    def _variant(self, given):
        """The model compiled for inputs like these; a value of None says that nothing of an input has to be known."""
        options, key = {"inputs": {}, "constants": {}, "sequences": {}, "absent": []}, []
        for value in self._inputs:
            if value.name in given:
                key.append(value.told(given[value.name], value.name in self._needed or value.name in self._defaults, options))
        key = tuple(key)
        if key not in self._variants:
            if len(self._variants) == VARIANTS:
                self._variants.pop(next(iter(self._variants)))
            try:
                self._variants[key] = Variant(self._bytes, self._inputs, self._outputs, options, given)
            except ValueError as error:
                if "has to be known" not in str(error) or self._counts <= self._needed:
                    raise
                self._needed |= self._counts
                if any(given[name] is None for name in self._counts & given.keys()):
                    raise
                return self._variant(given)
        return self._variants[key]


class Variant:
    """A model compiled for what its file leaves open."""

    def __init__(self, source, inputs, outputs, options, given):
        options["constants"] = {name: values.tensor(value) for name, value in options["constants"].items()}
        left = [value for value in inputs if value.name in given and value.name not in options["constants"] and value.name not in options["absent"]]
        model = graph.from_onnx(source, {**options, "inputs": values.shapes(options["inputs"]), "sequences": {name: values.shape_list(shapes) for name, shapes in options["sequences"].items()}})
        self._inputs, self._outputs = left, outputs
        self._compiled = models.compile(model, "model")
        self._arguments = sum(len(options["sequences"][value.name]) if value.name in options["sequences"] else 1 for value in left)
        if self._arguments != len(model.inputs):
            raise RuntimeError(f"the compiled model takes {len(model.inputs)} tensors, and {self._arguments} were expected: please report this model")

    def __call__(self, given):
        flat = []
        for value in self._inputs:
            one = given[value.name]
            flat.extend(one if isinstance(one, list) else [one])
        return values.results(self._compiled, self._outputs, flat)


class KernpackBackend(Backend):
    """The interface of ONNX. A model that the compiler does not support is an error that says why; what is skipped is another device alone."""

    @classmethod
    def supports_device(cls, device):
        """Tells whether models run on a device: `CPU`."""
        return str(device).split(":")[0].upper() == "CPU"

    @classmethod
    def is_compatible(cls, model, device="CPU", **kwargs):
        """Tells whether a model may be given to `prepare`: every one on a device that is supported, so that what fails is seen."""
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        """Compiles a model for repeated calls."""
        if not cls.supports_device(device):
            # Here, as this imports all tests of ONNX.
            from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

            raise BackendIsNotSupposedToImplementIt(f"device {device} is not supported: this backend runs models on the CPU")
        if not isinstance(model, onnx.ModelProto):
            raise TypeError(f"a model is an onnx.ModelProto, got {type(model).__name__}: read a file by onnx.load(path)")
        if kwargs:
            raise TypeError(f"prepare takes a model and a device only, got {', '.join(sorted(kwargs))} as well")
        return KernpackRep(model)

    @classmethod
    def run_model(cls, model, inputs, device="CPU", **kwargs):
        """Prepares a model and runs it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node, inputs, device="CPU", outputs_info=None, **kwargs):
        """Runs one node. The types of outputs are those of `outputs_info`, or are inferred; `opset_version` says which version of the operators is meant, else the newest."""
        version = kwargs.pop("opset_version", None) or min(onnx.defs.onnx_opset_version(), NEWEST)
        if kwargs:
            raise TypeError(f"run_node takes opset_version as an option, got {', '.join(sorted(kwargs))} as well")
        names = list(dict.fromkeys(name for name in node.input if name))
        arrays = [inputs[name] for name in names] if isinstance(inputs, dict) else list(inputs)
        if len(arrays) != len(names):
            raise TypeError(f"{node.op_type} has {len(names)} inputs ({', '.join(names)}), got {len(arrays)}")
        infos = [values.info_of(name, array) for name, array in zip(names, arrays)]
        wanted = [name for name in node.output if name]
        if outputs_info is not None:
            outs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(values.dtype(dtype)), shape) for name, (dtype, shape) in zip(wanted, outputs_info)]
        else:
            outs = [onnx.ValueInfoProto(name=name) for name in wanted]
        opsets = [helper.make_opsetid("", version)]
        if node.domain not in ("", "ai.onnx"):
            opsets.append(helper.make_opsetid(node.domain, onnx.defs.get_schema(node.op_type, node.domain).since_version if onnx.defs.has(node.op_type, node.domain) else 1))
        model = helper.make_model(helper.make_graph([node], "node", infos, outs), opset_imports=opsets)
        if outputs_info is None:
            model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        return cls.prepare(model, device).run(arrays)


#: The newest version of ONNX's operators that the compiler supports.
NEWEST = 28


def _names(list_of_values):
    return ", ".join(value.name for value in list_of_values)


def _quoted(names):
    return ", ".join(f"'{name}'" for name in sorted(names))


prepare = KernpackBackend.prepare
run_model = KernpackBackend.run_model
run_node = KernpackBackend.run_node
supports_device = KernpackBackend.supports_device
is_compatible = KernpackBackend.is_compatible
