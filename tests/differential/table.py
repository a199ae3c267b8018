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

#: The dynamic axes of a cache of keys or values.
CACHE = {0: "batch", 2: "past"}

#: The ways to leave extents to the call: bounds of dimensions, lists of extents, and ranges of extents. A cache begins at no words, and `seen` are all words of the mask.
WAYS = {
    "batch": {"dims_up_to": {"batch": 6}},
    "batch, sequence": {"dims_up_to": {"batch": 6}, "dims_in": {"sequence": [4, 6]}},
    "ranges": {"dims_range": {"batch": [1, 6], "sequence": [1, 6]}},
}
CACHED = {"dims_range": {"batch": [1, 6], "sequence": [1, 6], "past": [0, 12]}, "dims_sum": {"seen": "past + sequence"}}

#: The extents of the calls that are compared with onnxruntime, of the batch and of the sequence.
CALLS = ((1, 6), (2, 4), (3, 6), (6, 4))
#: Those of calls with ranges, of the batch, of the sequence and of a cache.
RANGED = ((1, 6, 0), (1, 1, 5), (2, 4, 3), (3, 5, 12), (6, 2, 0), (1, 1, 1))


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


def cached(name, part, attention="sdpa"):
    """A decoder with its cache as inputs and outputs, as `optimum` wraps it."""
    config = getattr(transformers, f"{name}Config")(**architectures.TEXT[name, part])
    config._attn_implementation = attention
    model = getattr(transformers, f"{name}{part}")(config)
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    layers = range(config.num_hidden_layers)
    example = {"input_ids": torch.randint(3, 40, (2, 6)), "attention_mask": torch.ones(2, 9).long()}
    example.update({f"past_{layer}_{kind}": torch.randn(2, heads, 3, width) for layer in layers for kind in ("key", "value")})

    def call(part, ids, mask, *past):
        cache = transformers.DynamicCache(config=config)
        for layer in layers:
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        out = part(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True)
        return out.logits, *(value for layer in out.past_key_values.layers for value in (layer.keys, layer.values))

    axes = {name: CACHE for name in example} | {"input_ids": WORDS, "attention_mask": {0: "batch", 1: "seen"}}
    return Calls(call, model), example, axes


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
    "GPT-2 with a cache": lambda: cached("GPT2", "LMHeadModel"),
    "Llama with a cache": lambda: cached("Llama", "ForCausalLM"),
    "Llama with a cache, eager attention": lambda: cached("Llama", "ForCausalLM", "eager"),
    "Mistral with a cache": lambda: cached("Mistral", "ForCausalLM"),
    "Qwen 3 with a cache": lambda: cached("Qwen3", "ForCausalLM"),
    "Gemma with a cache": lambda: cached("Gemma", "ForCausalLM"),
    "OPT with a cache": lambda: cached("OPT", "ForCausalLM"),
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
    # Which extents follow from others is found out by the exporter.
    is_cached = any(own == CACHE for own in axes.values())
    shapes = tuple({axis: torch.export.Dim.AUTO for axis in axes[name]} if is_cached else dict(axes[name]) for name in example)
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


def inputs_of(example, axes, batch, length, past=0):
    """Inputs for a call: the rows and words of the example, repeated."""
    extents = {"batch": batch, "sequence": length, "past": past, "seen": past + length}
    arrays = {}
    for name, value in example.items():
        for axis, dim in axes[name].items():
            value = np.take(value, np.resize([*range(value.shape[axis]), *reversed(range(value.shape[axis]))], extents[dim]), axis)
        arrays[name] = np.ascontiguousarray(value)
    return arrays


def named(model, axes, options):
    """The options with the names that the exporter has given to the dimensions."""
    own, sums = {}, dict(options.get("dims_sum", {}))
    for value in onnx.load_from_string(model).graph.input:
        for axis, dim in axes.get(value.name, {}).items():
            name = value.type.tensor_type.shape.dim[axis].dim_param
            if own.setdefault(dim, name) != name:
                sums[name] = dim
    renamed = {}
    for option, dims in options.items():
        renamed[option] = {own[dim]: extents for dim, extents in dims.items() if dim in own}
    if sums:
        renamed["dims_sum"] = {own.get(dim, dim): " + ".join(own[part] for part in total.split(" + ")) for dim, total in sums.items() if own.get(dim, dim)}
    return renamed


def tried(model, example, axes, way):
    """Compiles a model in a way, and compares it. Returns `works`, or raises an error. Runs in a process of its own."""
    is_cached = any(own == CACHE for own in axes.values())
    options = named(model, axes, CACHED if is_cached else WAYS[way])
    fixed = {} if "dims_in" in options or "dims_range" in options else {"sequence": 6}
    run = judges.models.compile(judges.models.from_onnx(model, dims=fixed, allow_nan=True, **options))
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
    calls = RANGED if "dims_range" in options else [(batch, 6 if fixed else length, 0) for batch, length in CALLS]
    for extents in calls:
        arrays = inputs_of(example, axes, *extents)
        wanted = session.run(None, arrays)
        got = run(**arrays)
        got = list(got) if isinstance(got, tuple) else [got]
        for want, have in zip(wanted, got, strict=True):
            want, have = np.asarray(want), np.asarray(have)
            if want.shape != have.shape or not np.allclose(want, have, rtol=1e-3, atol=2e-4 * max(1.0, float(np.abs(want).max(initial=0)))):
                return f"wrong at {' x '.join(map(str, extents if is_cached else extents[:2]))}"
    return "works"


def cells(name, exporter):
    """The results of the ways for a network."""
    made, error, _ = judges.in_child(lambda _: written(name, exporter), None, 200)
    if error:
        return ["not exported"] * len(WAYS)
    model, example, axes = made
    found = []
    is_cached = any(own == CACHE for own in axes.values())
    for way in WAYS:
        if way != "ranges" and is_cached or way == "batch, sequence" and not any(1 in own for own in axes.values()):
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
