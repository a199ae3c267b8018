"""Small architectures of the package transformers, with random weights. `ALL` has one function, which draws an architecture and its sizes."""

import torch
import transformers
from torch import nn

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, "vocab_size": 40, "max_position_embeddings": 32}
GROUPED = {**SIZES, "num_key_value_heads": 1, "head_dim": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
PICTURES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, "image_size": 16, "patch_size": 8}

#: The name of the classes, the inputs, and the settings of a small one.
TEXT = {
    ("Bert", "Model"): SIZES,
    ("Bert", "ForSequenceClassification"): SIZES,
    ("Roberta", "ForTokenClassification"): {**SIZES, "pad_token_id": 0},
    ("Electra", "Model"): {**SIZES, "embedding_size": 8},
    ("Albert", "Model"): {**SIZES, "embedding_size": 8},
    ("DistilBert", "Model"): {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24, "vocab_size": 40, "max_position_embeddings": 32},
    ("DebertaV2", "Model"): {**SIZES, "relative_attention": True, "position_buckets": 8, "pos_att_type": ["p2c", "c2p"]},
    ("MPNet", "Model"): {**SIZES, "pad_token_id": 0},
    ("ModernBert", "Model"): {**SIZES, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2, "local_attention": 8},
    ("GPT2", "LMHeadModel"): {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 40, "n_positions": 32, "bos_token_id": 1, "eos_token_id": 2},
    ("GPTNeoX", "ForCausalLM"): SIZES,
    ("OPT", "ForCausalLM"): {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "ffn_dim": 24, "vocab_size": 40, "max_position_embeddings": 32, "word_embed_proj_dim": 16},
    ("Bloom", "ForCausalLM"): {"hidden_size": 16, "n_layer": 2, "n_head": 2, "vocab_size": 40},
    ("Llama", "ForCausalLM"): GROUPED,
    ("Mistral", "ForCausalLM"): {**GROUPED, "sliding_window": 4},
    ("Qwen2", "ForCausalLM"): GROUPED,
    ("Qwen3", "ForCausalLM"): GROUPED,
    ("Gemma", "ForCausalLM"): GROUPED,
    ("Phi", "ForCausalLM"): {**GROUPED, "num_key_value_heads": 2},
    ("T5", "EncoderModel"): {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2, "vocab_size": 40},
}
IMAGES = {
    ("ViT", "Model"): PICTURES,
    ("DeiT", "Model"): PICTURES,
    ("Dinov2", "Model"): PICTURES,
    ("CLIPVision", "Model"): PICTURES,
    ("SiglipVision", "Model"): PICTURES,
    ("ResNet", "Model"): {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]},
    ("ConvNext", "Model"): {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "patch_size": 2},
    ("Swin", "Model"): {"image_size": 16, "patch_size": 2, "embed_dim": 8, "depths": [2, 1], "num_heads": [1, 2], "window_size": 4},
    ("MobileNetV2", "Model"): {"depth_multiplier": 0.35, "image_size": 32},
    ("Segformer", "Model"): {"hidden_sizes": [8, 16], "depths": [1, 1], "num_encoder_blocks": 2, "num_attention_heads": [1, 2], "sr_ratios": [2, 1], "patch_sizes": [3, 3], "strides": [2, 2], "mlp_ratios": [2, 2]},
}


class First(nn.Module):
    """The first output of a model, called by names."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *values):
        return self.model(**dict(zip(self.names, values)), return_dict=False)[0]


def architecture(draw):
    """An architecture with seeded weights, with norms and biases unlike those of a new network."""
    name, part = draw.one(*TEXT, *IMAGES)
    settings = {**TEXT, **IMAGES}[name, part]
    config = getattr(transformers, f"{name}Config")(**settings)
    kind = getattr(transformers, f"{name}{part}")
    config._attn_implementation = draw.one("eager", "sdpa") if getattr(kind, "_supports_sdpa", False) else "eager"
    model = kind(config)
    model.config.use_cache = False
    with torch.no_grad():
        for value in model.parameters():
            value.add_(torch.randn_like(value) * 0.1)
    batch = draw.number(1, 3)
    if (name, part) in IMAGES:
        example = {"pixel_values": torch.randn(batch, 3, *[settings.get("image_size", 16)] * 2)}
    else:
        length = draw.number(2, 9)
        example = {"input_ids": torch.randint(3, 40, (batch, length))}
        if draw.chance():
            # Rows are padded after their texts.
            ends = torch.tensor([draw.number(1, length) for _ in range(batch)])
            example["attention_mask"] = (torch.arange(length) < ends[:, None]).long()
    return f"{name}{part} {config._attn_implementation} of {[list(value.shape) for value in example.values()]}", First(model, list(example)), example


ALL = {"transformers": architecture}
