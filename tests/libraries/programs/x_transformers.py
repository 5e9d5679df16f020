"""x-transformers: a decoder with rotary positions, and an encoder."""

import torch
from x_transformers import AutoregressiveWrapper, Decoder, Encoder, TransformerWrapper

from libraries.case import Case, training, whole_numbers


def decoder() -> Case:
    layers = Decoder(dim=16, depth=2, heads=2, attn_dim_head=8, rotary_pos_emb=True)
    model = AutoregressiveWrapper(TransformerWrapper(num_tokens=32, max_seq_len=16, attn_layers=layers))
    ids = whole_numbers(32, 2, 16)
    return training(model, lambda: model(ids))


def encoder() -> Case:
    layers = Encoder(dim=16, depth=2, heads=2, attn_dim_head=8, ff_glu=True)
    model = TransformerWrapper(num_tokens=32, max_seq_len=16, attn_layers=layers)
    ids, goals = whole_numbers(32, 2, 16), whole_numbers(32, 2, 16, seed=1)
    return training(model, lambda: torch.nn.functional.cross_entropy(model(ids).transpose(1, 2), goals))


CASES = {"decoder": decoder, "encoder": encoder}
