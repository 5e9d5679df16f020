"""transformers: six models from small configurations, generation, and saved models."""

import tempfile
from collections.abc import Callable
from typing import Any

import torch
import transformers

from libraries.case import Case, numbers, training, whole_numbers

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
QUIET = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def words(*shape: int) -> Any:
    return whole_numbers(64, *shape)


def bert() -> Case:
    config = transformers.BertConfig(
        vocab_size=64, max_position_embeddings=32, num_labels=3, **SMALL, **QUIET
    )
    model = transformers.BertForSequenceClassification(config)
    ids, labels = words(2, 12), whole_numbers(3, 2)
    return training(model, lambda: model(input_ids=ids, labels=labels).loss)


def gpt2_model() -> Any:
    config = transformers.GPT2Config(
        vocab_size=64,
        n_positions=32,
        n_embd=16,
        n_layer=2,
        n_head=2,
        bos_token_id=0,
        eos_token_id=63,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    return transformers.GPT2LMHeadModel(config)


def gpt2() -> Case:
    model, ids = gpt2_model(), words(2, 12)
    return training(model, lambda: model(input_ids=ids, labels=ids).loss)


def llama_model() -> Any:
    config = transformers.LlamaConfig(
        vocab_size=64,
        max_position_embeddings=32,
        num_key_value_heads=1,
        **SMALL,
        bos_token_id=0,
        eos_token_id=63,
    )
    return transformers.LlamaForCausalLM(config)


def llama() -> Case:
    model, ids = llama_model(), words(2, 12)
    return training(model, lambda: model(input_ids=ids, labels=ids).loss)


def t5() -> Case:
    config = transformers.T5Config(
        vocab_size=64,
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        dropout_rate=0.0,
        decoder_start_token_id=0,
    )
    model = transformers.T5ForConditionalGeneration(config)
    ids = words(2, 10)
    return training(model, lambda: model(input_ids=ids, labels=ids).loss)


def vit() -> Case:
    model = transformers.ViTForImageClassification(
        transformers.ViTConfig(image_size=16, patch_size=4, num_labels=4, **SMALL, **QUIET)
    )
    images, labels = numbers(2, 3, 16, 16), whole_numbers(4, 2)
    # By larger steps rounding grows, in PyTorch's own numbers, to some thousandths from the tenth step on.
    return training(model, lambda: model(pixel_values=images, labels=labels).loss, rate=0.001)


def whisper() -> Case:
    config = transformers.WhisperConfig(
        vocab_size=64,
        num_mel_bins=8,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_source_positions=16,
        max_target_positions=16,
        dropout=0.0,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        begin_suppress_tokens=None,
        suppress_tokens=None,
    )
    model = transformers.WhisperForConditionalGeneration(config)
    sound, ids = numbers(2, 8, 32), words(2, 8)
    return training(model, lambda: model(input_features=sound, labels=ids).loss)


def generated(build: Callable[[], Any]) -> Callable[[], Case]:
    def case() -> Case:
        model = build().eval()
        ask = {"max_new_tokens": 8, "pad_token_id": 0}
        return Case(
            model,
            values=lambda: {
                "greedy": model.generate(words(1, 4), do_sample=False, **ask),
                "static cache": model.generate(
                    words(1, 4), do_sample=False, cache_implementation="static", disable_compile=True, **ask
                ),
                "without the cache": model.generate(words(1, 4), do_sample=False, use_cache=False, **ask),
                "beams": model.generate(words(1, 4), do_sample=False, num_beams=2, **ask),
            },
        )

    return case


def saved() -> Case:
    model = gpt2_model().eval()

    def values() -> dict[str, Any]:
        answers = {"as it is": model(words(1, 6)).logits}
        for title, given, asked in [
            ("one file", {}, {}),
            ("sharded", {"max_shard_size": "5KB"}, {}),
            ("device_map", {}, {"device_map": "cpu"}),
            ("half precision", {}, {"dtype": torch.bfloat16}),
        ]:
            with tempfile.TemporaryDirectory() as folder:
                model.save_pretrained(folder, **given)
                again = transformers.GPT2LMHeadModel.from_pretrained(folder, **asked).float()
                answers[title] = again(words(1, 6)).logits
        return answers

    return Case(model, values=values)


CASES = {
    "BERT": bert,
    "GPT-2": gpt2,
    "Llama": llama,
    "T5": t5,
    "ViT": vit,
    "Whisper": whisper,
    "GPT-2 generates": generated(gpt2_model),
    "Llama generates": generated(llama_model),
    "saved and loaded": saved,
}
