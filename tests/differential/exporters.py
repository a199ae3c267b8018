"""Networks with random weights, as `torch.onnx` writes them, by a trace of a call and by torch.export, and architectures of `transformers`. `ALL` has a function for each exporter
and source. Nothing is downloaded: the weights come from the seed."""

import io
import logging
import os
import warnings

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", CUDA_VISIBLE_DEVICES="")

import architectures  # noqa: E402
import networks  # noqa: E402
import onnx  # noqa: E402
import onnxscript  # noqa: E402, F401
import torch  # noqa: E402
import torch.onnx  # noqa: E402
from case import Case, NotMade  # noqa: E402
from judges import in_child  # noqa: E402

#: The version of the operators that each exporter writes.
TRACED, EXPORTED = 17, 18


def traced(network, example):
    """The model as bytes, by the exporter that traces a call."""
    file = io.BytesIO()
    torch.onnx.export(network, tuple(example.values()), file, opset_version=TRACED, dynamo=False, input_names=list(example))
    return file.getvalue()


def exported(network, example):
    """The model as bytes, by the exporter based on torch.export."""
    program = torch.onnx.export(network, tuple(example.values()), opset_version=EXPORTED, dynamo=True, input_names=list(example), verbose=False)
    return program.model_proto.SerializeToString()


def be_quiet(seed):
    """Seeds PyTorch, and silences the exporters. Runs in a process of its own: PyTorch starts threads."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")
    # The exporters print graphs that they refuse, some of them from C++; this process prints
    # nothing else there.
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)


def written(source, exporter, draw):
    """The description of a case, the model's bytes and its inputs. Runs in a process of its own: PyTorch starts threads."""
    be_quiet(draw.number(0, 2**31))
    what, network, example = source(draw)
    with torch.no_grad():
        data = exporter(network.eval(), example)
    return what, data, {name: tensor.numpy() for name, tensor in example.items()}


def case(draw, source, exporter):
    """A case, or an error if the exporter refuses the network."""
    made, error, _ = in_child(lambda _: written(source, exporter, draw), None, 120)
    if error:
        raise NotMade(error)
    what, data, inputs = made
    model = onnx.load_from_string(data)
    # The exporter drops inputs that the network does not read.
    names = [value.name for value in model.graph.input]
    inputs = dict(zip(names, inputs.values())) if len(names) == len(inputs) else {name: inputs[name] for name in names}
    return Case(f"{exporter.__name__} {what}", model, inputs, relative=1e-3, of_largest=2e-4)


ALL = {
    f"{name}_{exporter.__name__}": (lambda draw, source=source, exporter=exporter: case(draw, source, exporter))
    for name, source in {**networks.ALL, **architectures.ALL}.items()
    for exporter in (traced, exported)
}
