"""Whole models of transformers, from small configurations."""

from collections.abc import Callable
from typing import Any

import torch
import transformers

SMALL = {
    "vocab_size": 64,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
LONG = {**SMALL, "max_position_embeddings": 40}
GPT = {"vocab_size": 64, "n_positions": 32, "n_embd": 16, "n_layer": 2, "n_head": 2}


def words(*shape: int) -> Any:
    return torch.randint(2, 64, shape)


def of_words(kind: str, use: str = "Model", **options: Any) -> Callable[[], Any]:
    """A model of ten words, and of which of them are there."""

    def made() -> Any:
        config = getattr(transformers, f"{kind}Config")(**options)
        model = getattr(transformers, f"{kind}{use}")(config).eval()

        def run(ids: Any, mask: Any) -> Any:
            return model(input_ids=ids, attention_mask=mask, **no_cache(model))

        return run, lambda batch: (words(batch, 10), torch.ones(batch, 10, dtype=torch.int64).tril(8))

    return made


def no_cache(model: Any) -> dict[str, bool]:
    return {"use_cache": False} if hasattr(model.config, "use_cache") else {}


def of_images(kind: str, use: str = "Model", size: int = 32, **options: Any) -> Callable[[], Any]:
    def made() -> Any:
        config = getattr(transformers, f"{kind}Config")(**options)
        model = getattr(transformers, f"{kind}{use}")(config).eval()
        return lambda images: model(pixel_values=images), lambda batch: (torch.randn(batch, 3, size, size),)

    return made


def of_pairs(kind: str, use: str = "ForConditionalGeneration", **options: Any) -> Callable[[], Any]:
    def made() -> Any:
        config = getattr(transformers, f"{kind}Config")(**options)
        model = getattr(transformers, f"{kind}{use}")(config).eval()

        def run(ids: Any, targets: Any) -> Any:
            return model(input_ids=ids, decoder_input_ids=targets, use_cache=False).logits

        return run, lambda batch: (words(batch, 9), words(batch, 5))

    return made


D_MODEL = {
    "vocab_size": 64,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
}
D_MODEL |= {
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 32,
}
T5 = {"vocab_size": 64, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
IMAGES = {
    "image_size": 32,
    "patch_size": 8,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}
IMAGES |= {"intermediate_size": 32}


def of_sound(kind: str, **options: Any) -> Callable[[], Any]:
    def made() -> Any:
        config = getattr(transformers, f"{kind}Config")(**options)
        model = getattr(transformers, f"{kind}Model")(config).eval()
        return lambda sound: model(sound).last_hidden_state, lambda batch: (torch.randn(batch, 800),)

    return made


def whisper() -> Any:
    config = transformers.WhisperConfig(
        **{**D_MODEL, "max_position_embeddings": 32}, num_mel_bins=8, max_source_positions=16,
        max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    model = transformers.WhisperForConditionalGeneration(config).eval()

    def run(sound: Any, ids: Any) -> Any:
        return model(input_features=sound, decoder_input_ids=ids, use_cache=False).logits

    return run, lambda batch: (torch.randn(batch, 8, 32), words(batch, 6))


def clip() -> Any:
    text = {**LONG, "eos_token_id": 63, "bos_token_id": 0}
    config = transformers.CLIPConfig(text_config=text, vision_config=IMAGES, projection_dim=8)
    model = transformers.CLIPModel(config).eval()

    def run(ids: Any, images: Any) -> Any:
        return model(input_ids=ids, pixel_values=images).logits_per_image

    return run, lambda batch: (words(batch, 10), torch.randn(batch, 3, 32, 32))


WAV = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
WAV |= {"conv_dim": (8, 8), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_conv_pos_embeddings": 4}
WAV |= {"num_conv_pos_embedding_groups": 2, "num_feat_extract_layers": 2}

MODELS: dict[str, Callable[[], Any]] = {
    **{f"{kind}": of_words(kind, **LONG) for kind in "Bert Electra Ernie".split()},
    "BertForSequenceClassification": of_words("Bert", "ForSequenceClassification", **LONG),
    "BertForTokenClassification": of_words("Bert", "ForTokenClassification", **LONG),
    "BertForMaskedLM": of_words("Bert", "ForMaskedLM", **LONG),
    "BertForQuestionAnswering": of_words("Bert", "ForQuestionAnswering", **LONG),
    "Roberta": of_words("Roberta", **LONG),
    "Camembert": of_words("Camembert", **LONG),
    "XLMRoberta": of_words("XLMRoberta", **LONG),
    "DistilBert": of_words("DistilBert", vocab_size=64, dim=16, n_layers=2, n_heads=2, hidden_dim=32),
    "Albert": of_words("Albert", **LONG, embedding_size=8),
    "MPNet": of_words("MPNet", **LONG),
    "MobileBert": of_words(
        "MobileBert", **LONG, embedding_size=8, intra_bottleneck_size=8, true_hidden_size=8
    ),
    "SqueezeBert": of_words("SqueezeBert", **LONG, embedding_size=16, q_groups=1, k_groups=1, v_groups=1),
    "Deberta": of_words("Deberta", **LONG, relative_attention=True, pos_att_type=["p2c", "c2p"]),
    "DebertaV2": of_words("DebertaV2", **LONG, relative_attention=True, pos_att_type=["p2c", "c2p"]),
    "ConvBert": of_words("ConvBert", **LONG, embedding_size=16, head_ratio=1, conv_kernel_size=3),
    "XLM": of_words("XLM", vocab_size=64, emb_dim=16, n_layers=2, n_heads=2),
    "RoFormer": of_words("RoFormer", **LONG, embedding_size=16),
    "ModernBert": of_words("ModernBert", **LONG, pad_token_id=0, cls_token_id=1, sep_token_id=2),
    "GPT2LMHead": of_words("GPT2", "LMHeadModel", **GPT),
    "GPTNeo": of_words(
        "GPTNeo", "ForCausalLM", vocab_size=64, hidden_size=16, num_layers=2, num_heads=2,
        max_position_embeddings=32, attention_types=[[["global", "local"], 1]],
    ),
    "GPTJ": of_words("GPTJ", "ForCausalLM", **GPT, rotary_dim=4),
    "GPTNeoX": of_words("GPTNeoX", "ForCausalLM", **LONG),
    "CodeGen": of_words("CodeGen", "ForCausalLM", **{**GPT, "n_head": 4}, rotary_dim=4),
    "GPTBigCode": of_words("GPTBigCode", "ForCausalLM", **GPT),
    "OPT": of_words(
        "OPT", "ForCausalLM", vocab_size=64, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        ffn_dim=32, max_position_embeddings=32, word_embed_proj_dim=16,
    ),
    "Bloom": of_words("Bloom", "ForCausalLM", vocab_size=64, hidden_size=16, n_layer=2, n_head=2),
    **{
        kind: of_words(kind, "ForCausalLM", **LONG, num_key_value_heads=1)
        for kind in "Llama Mistral Qwen2 Phi StableLm Olmo Starcoder2 Cohere Granite".split()
    },
    "Qwen3": of_words("Qwen3", "ForCausalLM", **LONG, num_key_value_heads=1, head_dim=8),
    "Gemma": of_words("Gemma", "ForCausalLM", **LONG, num_key_value_heads=1, head_dim=8),
    "Gemma2": of_words("Gemma2", "ForCausalLM", **LONG, num_key_value_heads=1, head_dim=8),
    "Falcon": of_words("Falcon", "ForCausalLM", **SMALL),
    "Mamba": of_words(
        "Mamba", "ForCausalLM", vocab_size=64, hidden_size=16, num_hidden_layers=1, state_size=4
    ),
    "T5": of_pairs("T5", **T5, decoder_start_token_id=0),
    "MT5": of_pairs("MT5", **T5, decoder_start_token_id=0),
    "Bart": of_pairs("Bart", **D_MODEL),
    "MBart": of_pairs("MBart", **D_MODEL),
    "Pegasus": of_pairs("Pegasus", **D_MODEL),
    "Marian": of_pairs("Marian", "MTModel", **D_MODEL, pad_token_id=0),
    "Whisper": whisper,
    "CLIP": clip,
    "ViT": of_images("ViT", "ForImageClassification", **IMAGES),
    "DeiT": of_images("DeiT", **IMAGES),
    "BeitModel": of_images("Beit", **IMAGES),
    "Dinov2": of_images("Dinov2", **{k: v for k, v in IMAGES.items() if k != "intermediate_size"}),
    "ConvNext": of_images("ConvNext", depths=[1, 1], hidden_sizes=[8, 16], num_stages=2),
    "ResNet": of_images("ResNet", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"),
    "RegNet": of_images("RegNet", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], groups_width=8),
    "Swin": of_images(
        "Swin", image_size=32, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[1, 2], window_size=4
    ),
    "Segformer": of_images(
        "Segformer", "ForSemanticSegmentation", num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1],
        hidden_sizes=[8, 16], patch_sizes=[7, 3], strides=[4, 2], num_attention_heads=[1, 2],
        mlp_ratios=[2, 2], decoder_hidden_size=8,
    ),
    "PoolFormer": of_images(
        "PoolFormer", num_encoder_blocks=2, depths=[1, 1], hidden_sizes=[8, 16], patch_sizes=[7, 3],
        strides=[4, 2], padding=[2, 1],
    ),
    "MobileNetV2": of_images("MobileNetV2", "ForImageClassification", depth_multiplier=0.25),
    "Wav2Vec2": of_sound("Wav2Vec2", **WAV),
    "Hubert": of_sound("Hubert", **WAV),
}  # fmt: skip
