"""Skip-grams with negative samples."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, seeded


class SkipGram(nn.Module):
    def __init__(self, vocab_size, embedding_dim):
        super().__init__()
        self.in_embed = nn.Embedding(vocab_size, embedding_dim)
        self.out_embed = nn.Embedding(vocab_size, embedding_dim)

    def forward(self, centre, context, negatives):
        v = self.in_embed(centre)
        u = self.out_embed(context)
        score = torch.sum(torch.mul(u, v), dim=1)
        neg = torch.bmm(self.out_embed(negatives), v.unsqueeze(2)).squeeze()
        return -(F.logsigmoid(score) + F.logsigmoid(-neg).sum(1)).mean()


def steps():
    model = seeded(SkipGram(20, 8))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.1, total_iters=10)

    def train(centre, context, negatives):
        optimizer.zero_grad()
        loss = model(centre, context, negatives)
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss

    return train, lambda i: (
        torch.from_numpy(integers(20, 6, seed=i)),
        torch.from_numpy(integers(20, 6, seed=i + 1)),
        torch.from_numpy(integers(20, 6, 4, seed=i + 2)),
    )
