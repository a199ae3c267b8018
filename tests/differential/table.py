"""The table of what compiles: exporter, network, dynamic axes. `cargo xtask differential --table` runs it.

usage: table.py [--write] [--word WORD]

Each network is exported with its axes dynamic, as tutorials do, and read with the extents left to the call. What runs is compared with onnxruntime at several extents. The table is the
file `table.md` beside this one; a run that sees something else shows it and ends with status 1, and `--write` writes the file.
"""

import argparse
import io
import sys
from pathlib import Path

import architectures
import exporters
import judges
import numpy as np
import onnx
import onnxruntime
import torch
import transformers
from torch import nn

TABLE = Path(__file__).with_suffix(".md")

#: The dynamic axes of inputs that are images, or tokens and features by batch and length.
ROWS, WORDS = {0: "batch"}, {0: "batch", 1: "sequence"}

#: The ways to leave extents to the call: bounds of dimensions, and lists of extents.
WAYS = {
    "batch": ({"batch": 6}, {}),
    "batch, sequence": ({"batch": 6}, {"sequence": [4, 6]}),
}

#: The extents of the calls that are compared with onnxruntime, of the batch and of the sequence.
CALLS = ((1, 6), (2, 4), (3, 6), (6, 4))


def text(name, part, attention="sdpa", mask=True):
    """An architecture for texts, with an attention mask or without."""
    config = getattr(transformers, f"{name}Config")(**architectures.TEXT[name, part])
    config._attn_implementation = attention
    model = getattr(transformers, f"{name}{part}")(config)
    model.config.use_cache = False
    example = {"input_ids": torch.randint(3, 40, (2, 6))}
    if mask:
        example["attention_mask"] = (torch.arange(6) < torch.tensor([[6], [4]])).long()
    return architectures.First(model, list(example)), example, dict.fromkeys(example, WORDS)


def pooled(name, part):
    """Sentence embeddings: the mean of the words that the mask keeps, of length 1."""
    model, example, axes = text(name, part)

    def mean(part, ids, mask):
        words, kept = part(ids, mask), mask.unsqueeze(-1).float()
        return nn.functional.normalize((words * kept).sum(1) / kept.sum(1).clamp(min=1e-9), dim=-1)

    return Calls(mean, model), example, axes


class Calls(nn.Module):
    """A function of modules and tensors as a module; `torch.export` wants the names of its inputs."""

    def __init__(self, function, *parts):
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(parts)

    def forward(self, *values):
        return self.function(*self.parts, *values)


def image(name, part="Model"):
    """An architecture for images."""
    settings = architectures.IMAGES[name, part]
    config = getattr(transformers, f"{name}Config")(**settings)
    config._attn_implementation = "eager"
    example = {"pixel_values": torch.randn(2, 3, *[settings.get("image_size", 16)] * 2)}
    return architectures.First(getattr(transformers, f"{name}{part}")(config), list(example)), example, {"pixel_values": ROWS}


def layers(make, width=16):
    """Layers of PyTorch over words as vectors."""
    return make(), {"x": torch.randn(2, 6, width)}, {"x": WORDS}


def function(body, *extents):
    """A function of an array."""
    return Calls(body), {"x": torch.randn(2, *extents)}, {"x": ROWS}


def whisper():
    """The encoder of Whisper."""
    config = transformers.WhisperConfig(d_model=16, encoder_layers=2, encoder_attention_heads=2, encoder_ffn_dim=24, max_source_positions=8, num_mel_bins=8)
    encoder = transformers.models.whisper.modeling_whisper.WhisperEncoder(config)
    return architectures.First(encoder, ["input_features"]), {"input_features": torch.randn(2, 8, 16)}, {"input_features": ROWS}


def last_word():
    """The vector of the last word of each text, whose place follows from the mask."""
    body = lambda x, mask: x[torch.arange(x.shape[0]), mask.sum(-1) - 1]  # noqa: E731
    return Calls(body), {"x": torch.randn(2, 6, 4), "mask": (torch.arange(6) < torch.tensor([[6], [4]])).long()}, {"x": WORDS, "mask": WORDS}


def encoder():
    # The fused kernel for inference has no counterpart in ONNX.
    torch.backends.mha.set_fastpath_enabled(False)
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 24, batch_first=True), 2, enable_nested_tensor=False)


def recurrent(kind):
    return Calls(lambda part, x: part(x)[0], kind(16, 8, 2, bidirectional=True, batch_first=True))


NETWORKS = {
    "BERT": lambda: text("Bert", "Model"),
    "BERT, eager attention": lambda: text("Bert", "Model", "eager"),
    "BERT without a mask": lambda: text("Bert", "Model", mask=False),
    "BERT classifier": lambda: text("Bert", "ForSequenceClassification"),
    "sentence embeddings": lambda: pooled("Bert", "Model"),
    "DistilBERT": lambda: text("DistilBert", "Model"),
    "RoBERTa": lambda: text("Roberta", "ForTokenClassification"),
    "Electra": lambda: text("Electra", "Model"),
    "ALBERT": lambda: text("Albert", "Model"),
    "MPNet": lambda: text("MPNet", "Model", "eager"),
    "DeBERTa v2": lambda: text("DebertaV2", "Model", "eager"),
    "ModernBERT": lambda: text("ModernBert", "Model"),
    "T5 encoder": lambda: text("T5", "EncoderModel"),
    "GPT-2": lambda: text("GPT2", "LMHeadModel"),
    "Llama": lambda: text("Llama", "ForCausalLM"),
    "Llama, eager attention": lambda: text("Llama", "ForCausalLM", "eager"),
    "Llama without a mask": lambda: text("Llama", "ForCausalLM", mask=False),
    "Mistral": lambda: text("Mistral", "ForCausalLM"),
    "Qwen 3": lambda: text("Qwen3", "ForCausalLM"),
    "Gemma": lambda: text("Gemma", "ForCausalLM"),
    "OPT": lambda: text("OPT", "ForCausalLM"),
    "Bloom": lambda: text("Bloom", "ForCausalLM", "eager"),
    "ViT": lambda: image("ViT"),
    "DINOv2": lambda: image("Dinov2"),
    "Swin": lambda: image("Swin"),
    "ResNet": lambda: image("ResNet"),
    "ConvNeXt": lambda: image("ConvNext"),
    "SegFormer": lambda: image("Segformer"),
    "Whisper encoder": whisper,
    "TransformerEncoder": lambda: layers(encoder),
    "LSTM": lambda: layers(lambda: recurrent(nn.LSTM)),
    "GRU": lambda: layers(lambda: recurrent(nn.GRU)),
    "last word": last_word,
    "topk": lambda: function(lambda x: x.topk(3, -1).values, 9),
    "sort": lambda: function(lambda x: x.sort(-1, descending=True).values, 9),
    "row numbers": lambda: function(lambda x: x + torch.arange(x.shape[0])[:, None], 9),
}


def traced(network, example, axes):
    """The model as bytes, by the exporter that traces a call."""
    file = io.BytesIO()
    names = list(example)
    torch.onnx.export(network, tuple(example.values()), file, opset_version=exporters.TRACED, dynamo=False, input_names=names, output_names=["out"], dynamic_axes={**axes, "out": ROWS})
    return file.getvalue()


def exported(network, example, axes):
    """The model as bytes, by the exporter based on torch.export."""
    shapes = tuple(dict(axes[name]) for name in example)
    takes_any = isinstance(network, (architectures.First, Calls))
    program = torch.onnx.export(
        network, tuple(example.values()), opset_version=exporters.EXPORTED, dynamo=True, input_names=list(example), output_names=["out"], dynamic_shapes=(shapes,) if takes_any else shapes, verbose=False
    )
    return program.model_proto.SerializeToString()


def written(name, exporter):
    """The model's bytes, example and axes. Runs in a process of its own."""
    exporters.be_quiet(1)
    network, example, axes = NETWORKS[name]()
    with torch.no_grad():
        data = exporter(network.eval(), example, axes)
    return data, {name: value.numpy() for name, value in example.items()}, axes


def inputs_of(example, axes, batch, length):
    """Inputs for a call: the rows of the example, repeated, and its first words."""
    arrays = {}
    for name, value in example.items():
        value = np.concatenate([value, value[::-1]] * batch)[:batch]
        arrays[name] = np.ascontiguousarray(value[:, :length] if 1 in axes[name] else value)
    return arrays


def tried(model, example, axes, way):
    """Compiles a model in a way, and compares it. Returns `works`, or raises an error. Runs in a process of its own."""
    up_to, dims_in = WAYS[way]
    fixed = {} if dims_in else {"sequence": 6}
    read = judges.models.from_onnx(model, dims=fixed, dims_up_to=up_to, dims_in=dims_in, allow_nan=True)
    run = judges.models.compile(read)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    for batch, length in CALLS:
        arrays = inputs_of(example, axes, batch, length if dims_in else 6)
        wanted = session.run(None, arrays)
        got = run(**arrays)
        got = list(got) if isinstance(got, tuple) else [got]
        for want, have in zip(wanted, got, strict=True):
            want, have = np.asarray(want), np.asarray(have)
            if want.shape != have.shape or not np.allclose(want, have, rtol=1e-3, atol=2e-4 * max(1.0, float(np.abs(want).max(initial=0)))):
                return f"wrong at {batch} x {length}"
    return "works"


def cells(name, exporter):
    """The results of the ways for a network."""
    made, error, _ = judges.in_child(lambda _: written(name, exporter), None, 200)
    if error:
        return ["not exported"] * len(WAYS)
    model, example, axes = made
    found = []
    for way in WAYS:
        if "sequence" in way and not any(1 in own for own in axes.values()):
            found.append("")
            continue
        result, error, _ = judges.in_child(lambda _: tried(model, example, axes, way), None, 200)
        found.append(result or error.splitlines()[0].replace("|", "/")[:160])
    return found


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--word", default="")
    arguments = parser.parse_args()
    lines = [f"| network | exporter | {' | '.join(WAYS)} |", "|---" * (len(WAYS) + 2) + "|"]
    for name in NETWORKS:
        for exporter in (traced, exported):
            if arguments.word in name:
                lines.append(f"| {name} | {exporter.__name__} | {' | '.join(cells(name, exporter))} |")
                print(lines[-1], flush=True)
    old = TABLE.read_text().splitlines() if TABLE.exists() else []
    head = old[: old.index(lines[0])] if lines[0] in old else old
    if arguments.write:
        TABLE.write_text("\n".join([*head, *lines, ""]))
        return 0
    other = [line for line in lines if line not in old]
    for line in other:
        print(f"not in {TABLE.name}: {line}")
    return 1 if other else 0


if __name__ == "__main__":
    sys.exit(main())
