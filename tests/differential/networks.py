"""Networks of PyTorch for the exporters. `ALL` has functions that draw one: its description, the module, and tensors for its inputs by name."""

import torch
from torch import nn
from torch.nn import functional as f

ALL = {}


def source(function):
    """Registers a kind of networks."""
    ALL[function.__name__] = function
    return function


class Calls(nn.Module):
    """Functions of tensors as a module, with the modules that they use."""

    def __init__(self, function, *parts):
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(parts)

    def forward(self, *values):
        return self.function(*self.parts, *values)


def activation(draw):
    return draw.one(nn.ReLU, nn.GELU, nn.SiLU, nn.Hardswish, nn.Mish, nn.ELU, nn.PReLU, nn.Softplus, nn.Hardsigmoid, nn.Tanh, nn.ReLU6, nn.LogSigmoid, nn.Softsign, lambda: nn.GELU("tanh"), lambda: nn.LeakyReLU(0.2))()


def used(norm):
    """A norm with statistics unlike those of a new network."""
    with torch.no_grad():
        for value in [*norm.parameters(), *(buffer for buffer in norm.buffers() if buffer.is_floating_point())]:
            value.copy_(torch.rand_like(value) + 0.5)
    return norm


@source
def images(draw):
    """A sequence of layers over images, some with a residual sum."""
    channels, size = draw.one(1, 3, 4), draw.number(8, 17)
    x = torch.randn(draw.number(1, 3), channels, size, size + draw.number(0, 3))
    layers, names = [], []
    for _ in range(draw.number(1, 4)):
        out = draw.one(4, 6, 8)
        groups = draw.one(*(groups for groups in (1, 2, channels) if channels % groups == 0 and out % groups == 0))
        kernel = draw.one(1, 3, 3, 5)
        layer = [
            nn.Conv2d(channels, out, kernel, padding=kernel // 2, groups=groups, bias=draw.chance(), padding_mode=draw.one("zeros", "zeros", "reflect", "replicate", "circular")),
            draw.one(lambda: used(nn.BatchNorm2d(out)), lambda: used(nn.GroupNorm(2, out)), lambda: used(nn.InstanceNorm2d(out, affine=True)), nn.Identity)(),
            activation(draw),
        ]
        if draw.chance(0.4):
            layer.append(draw.one(lambda: nn.Upsample(scale_factor=2, mode="nearest"), lambda: nn.Upsample(scale_factor=2, mode="bilinear", align_corners=draw.chance()), lambda: nn.ConvTranspose2d(out, out, 3, stride=2, padding=1, output_padding=1), lambda: nn.PixelShuffle(2))())
            out = out // 4 if isinstance(layer[-1], nn.PixelShuffle) else out
            out = max(out, 1)
            if isinstance(layer[-1], nn.PixelShuffle) and layer[0].out_channels % 4:
                layer.pop()
                out = layer[0].out_channels
        layer.append(draw.one(nn.Identity, lambda: nn.MaxPool2d(2, ceil_mode=draw.chance()), lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=draw.chance()), lambda: nn.Dropout2d(0.3))())
        layers += layer
        channels = out
        names += [type(part).__name__ for part in layer if not isinstance(part, nn.Identity)]
    head = draw.one([nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 5)], [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LogSoftmax(1)], [])
    network = nn.Sequential(*layers, *head)
    return f"images {list(x.shape)}: {' '.join(names)}, {len(head)} at the end", network, {"x": x}


@source
def recurrent(draw):
    """A recurrent network of one or two layers, with and without a first state."""
    kind = draw.one(nn.LSTM, nn.GRU, nn.RNN)
    size, hidden, layers, both, first = draw.number(1, 6), draw.one(3, 4, 8), draw.number(1, 2), draw.chance(), draw.chance()
    network = kind(size, hidden, layers, bidirectional=both, batch_first=first, bias=draw.chance(0.8))
    steps, batch = draw.number(1, 5), draw.number(1, 3)
    example = {"x": torch.randn(*((batch, steps) if first else (steps, batch)), size)}
    if kind is not nn.LSTM and draw.chance():
        example["state"] = torch.randn(layers * (1 + both), batch, hidden)
    return f"{kind.__name__} {size} to {hidden}, {layers} layers, both ways {both}, batch first {first}", Calls(lambda part, *values: part(*values)[0], network), example


@source
def attention(draw):
    """Attention by the modules of PyTorch."""
    heads, width = draw.one(1, 2, 4), 8
    x = torch.randn(draw.number(1, 3), draw.number(2, 7), width)
    options = {"dropout": 0.1, "activation": draw.one("relu", "gelu"), "batch_first": True, "norm_first": draw.chance()}
    layer = nn.TransformerEncoderLayer(width, heads, 16, **options)
    kind = draw.one("encoder", "encoder", "decoder", "attention", "function")
    if kind == "encoder":
        # The fused kernel for inference has no counterpart in ONNX.
        return f"encoder {options}", Calls(lambda part, x: part(x), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)), {"x": x}
    if kind == "decoder":
        return f"decoder {options}", nn.TransformerDecoderLayer(width, heads, 16, **options), {"x": x, "memory": torch.randn(x.shape[0], draw.number(1, 5), width)}
    if kind == "attention":
        part = nn.MultiheadAttention(width, heads, batch_first=True, add_bias_kv=draw.chance(0.3))
        return "attention", Calls(lambda part, q, k: part(q, k, k), part), {"q": x, "k": torch.randn(x.shape[0], draw.number(1, 5), width)}
    causal = draw.chance()
    split = lambda x: x.unflatten(-1, (heads, width // heads)).transpose(1, 2)  # noqa: E731
    return f"scaled_dot_product_attention causal {causal}", Calls(lambda x: f.scaled_dot_product_attention(split(x), split(x * 0.5), split(x + 1), is_causal=causal)), {"x": x}


#: Functions of a matrix or of images that exporters write as several nodes.
FUNCTIONS = {
    "cumsum": lambda x: x.cumsum(-1),
    "topk": lambda x: x.topk(2, -1),
    "sort": lambda x: x.sort(-1, descending=True),
    "roll": lambda x: x.roll((1, -2), (0, -1)),
    "tril": lambda x: x.tril(1) + x.triu(-1),
    "where": lambda x: torch.where(x > 0.3, x, x.floor()),
    "masked_fill": lambda x: x.masked_fill(x < 0, float("-inf")).softmax(-1).nan_to_num(),
    "einsum": lambda x: torch.einsum("...i,...j->...ij", x, x),
    "var": lambda x: (x.var(-1, keepdim=True), x.std((0, -1), correction=0)),
    "norms": lambda x: (x.norm(dim=-1), x.norm(p=1, dim=0), torch.linalg.vector_norm(x, float("inf"), -1)),
    "logsumexp": lambda x: x.logsumexp(-1) + x.log_softmax(-1)[..., 0],
    "argmax": lambda x: (x.argmax(-1), x.argmin(0), x.amax((0, -1))),
    "index": lambda x: x[..., [2, 0, -1]],
    "slice": lambda x: x[..., 1::2].flip(-1),
    "index_put": lambda x: x.clone().index_fill_(-1, torch.tensor([0, 2]), 7.0),
    "gather": lambda x: x.gather(-1, (x[..., :3] > 0).long()),
    "scatter": lambda x: torch.zeros_like(x).scatter(-1, torch.argsort(x, -1), x),
    "scatter_add": lambda x: torch.zeros_like(x).scatter_add(-1, (x > 0).long(), x),
    "one_hot": lambda x: f.one_hot((x > 0).long(), 3).float() * x.unsqueeze(-1),
    "split": lambda x: torch.stack(x[..., :4].chunk(2, -1)).sum(0),
    "repeat": lambda x: (x.repeat_interleave(2, -1), x.expand(2, *x.shape)),
    "remainder": lambda x: (x % 0.7, torch.fmod(x, 0.7), torch.div(x, 0.3, rounding_mode="floor"), torch.div(x, 0.3, rounding_mode="trunc")),
    "integers": lambda x: ((x * 9).long() // 4, (x * 9).int() % 5, (x * 9).long() >> 1, (x * 9).int() & 6),
    "rounding": lambda x: (x.round(), x.trunc(), x.frac(), x.sign(), (x * 10).round(decimals=1)),
    "powers": lambda x: (x.abs() ** 0.5, x.abs().rsqrt(), x.square(), x.exp2(), x.expm1(), x.abs().log1p(), x.abs().log2()),
    "trigonometry": lambda x: (x.sin(), x.atan(), x.tanh(), torch.atan2(x, x.cos()), x.erf(), x.sinh()),
    "clamp": lambda x: (x.clamp(-0.5), x.clamp(max=0.2), f.hardtanh(x), f.threshold(x, 0.1, -3.0), f.celu(x), f.selu(x)),
    "glu": lambda x: f.glu(x[..., :4]),
    "cat": lambda x: torch.cat([x, x.mean(-1, keepdim=True), x[..., :1]], -1),
    "meshgrid": lambda x: x + torch.stack(torch.meshgrid(torch.arange(2.0), torch.arange(3.0), indexing="ij")).sum(),
    "linspace": lambda x: x * torch.linspace(-1, 1, x.shape[-1]) + torch.full_like(x, 0.5),
    "layer_norm": lambda x: f.layer_norm(x, x.shape[-1:], eps=1e-3) + f.rms_norm(x, x.shape[-1:]),
    "normalize": lambda x: f.normalize(x, dim=-1) + f.cosine_similarity(x, x + 1, dim=-1).unsqueeze(-1),
    "bilinear": lambda x: f.interpolate(x[None, None] if x.dim() == 2 else x[None], scale_factor=1.5, mode="bilinear") if x.dim() < 4 else x,
    "bicubic": lambda x: f.interpolate(x[None, None], size=(7, 9), mode="bicubic", align_corners=True) if x.dim() == 2 else x,
    "pad": lambda x: (f.pad(x, (1, 2), value=3.0), f.pad(x[None], (1, 1), mode="reflect") if x.dim() < 3 else x, f.pad(x, (-1, 1))),
    "unfold": lambda x: x.unfold(-1, 3, 2),
    "nonzero": lambda x: (x > 0).nonzero(),
    "masked_select": lambda x: x[x > 0],
    "cdist": lambda x: torch.cdist(x, x * 0.5) if x.dim() > 1 else x,
    "all": lambda x: ((x > -3).all(-1), (x > 1).any(0), (x > 0).sum(-1), torch.logical_xor(x > 0, x < 1)),
    "prod": lambda x: (x.prod(-1), x.cumsum(0), x.diff(dim=-1)),
    "bucketize": lambda x: (x.unsqueeze(-1) > torch.tensor([-1.0, 0.0, 1.0])).sum(-1),
    "half": lambda x: (x.half() * 2).float() + x.double().exp().float(),
}


@source
def functions(draw):
    """Two functions, in sequence if the first returns a single tensor of floats."""
    names = [draw.one(*FUNCTIONS), draw.one(*FUNCTIONS)]
    x = torch.randn(*draw.shape(1, 2, 4, zero=0)[:2], draw.number(5, 9))

    def both(x):
        first = FUNCTIONS[names[0]](x)
        goes_on = torch.is_tensor(first) and first.is_floating_point() and first.dim() and first.shape[-1] >= 5 and names[0] != "masked_select"
        return FUNCTIONS[names[1]](first) if goes_on else first

    return f"{' '.join(names)} of {list(x.shape)}", Calls(both), {"x": x}


@source
def tables(draw):
    """Rows of a table selected by numbers, as at the start of language models, and operations on them."""
    rows, width = draw.number(3, 20), draw.one(4, 8)
    ids = torch.randint(0, rows, draw.shape(1, 2, 6, zero=0))
    table = draw.one(lambda: nn.Embedding(rows, width), lambda: nn.Embedding(rows, width, padding_idx=0))()
    head = draw.one(nn.Identity, lambda: nn.Linear(width, 3), lambda: nn.Sequential(nn.LayerNorm(width), activation(draw), nn.Linear(width, rows)))()
    return f"table {rows} x {width} of {list(ids.shape)}", nn.Sequential(table, head), {"ids": ids}
