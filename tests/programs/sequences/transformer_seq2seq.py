"""`nn.Transformer` with masks and positional encoding, label smoothing and a warm-up schedule."""

import math

import torch
import torch.nn as nn
from programs.common import integers, seeded


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.0, max_len=20):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(1, max_len, d_model)
        pe[0, :, 0::2] = torch.sin(position * div_term)
        pe[0, :, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return self.dropout(x + self.pe[:, : x.size(1)])


class Seq2SeqTransformer(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.transformer = nn.Transformer(width, 2, 1, 1, 32, dropout=0.0, batch_first=True)
        self.src_tok_emb, self.tgt_tok_emb = nn.Embedding(vocabulary, width), nn.Embedding(vocabulary, width)
        self.generator, self.positional_encoding = nn.Linear(width, vocabulary), PositionalEncoding(width)
        self.width = width

    def forward(self, src, tgt):
        tgt_mask = nn.Transformer.generate_square_subsequent_mask(tgt.size(1))
        src_key_padding_mask = src == 0
        src_emb = self.positional_encoding(self.src_tok_emb(src) * math.sqrt(self.width))
        tgt_emb = self.positional_encoding(self.tgt_tok_emb(tgt) * math.sqrt(self.width))
        outs = self.transformer(
            src_emb,
            tgt_emb,
            tgt_mask=tgt_mask,
            src_key_padding_mask=src_key_padding_mask,
            memory_key_padding_mask=src_key_padding_mask,
        )
        return self.generator(outs)


def steps():
    model = seeded(Seq2SeqTransformer(11, 16))
    loss_fn = nn.CrossEntropyLoss(ignore_index=0, label_smoothing=0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 16**-0.5 * min((step + 1) ** -0.5, (step + 1) * 4**-1.5) / 20
    )

    def train_step(src, tgt):
        model.train()
        logits = model(src, tgt[:, :-1])
        optimizer.zero_grad()
        tgt_out = tgt[:, 1:]
        loss = loss_fn(logits.reshape(-1, logits.shape[-1]), tgt_out.reshape(-1))
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss

    def batch(i):
        src, tgt = integers(10, 3, 6, seed=i) + 1, integers(10, 3, 5, seed=i + 1) + 1
        src[0, 4:] = 0
        return torch.from_numpy(src), torch.from_numpy(tgt)

    return train_step, batch
