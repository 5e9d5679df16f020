"""A language model of characters: an LSTM whose state goes on from batch to batch."""

import torch
import torch.nn as nn
from programs.common import integers, seeded


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp, nhid, nlayers):
        super().__init__()
        self.ntoken, self.nhid, self.nlayers = ntoken, nhid, nlayers
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers)
        self.decoder = nn.Linear(nhid, ntoken)

    def forward(self, input, hidden):
        emb = self.encoder(input)
        output, hidden = self.rnn(emb, hidden)
        decoded = self.decoder(output).view(-1, self.ntoken)
        return torch.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return (
            weight.new_zeros(self.nlayers, bsz, self.nhid),
            weight.new_zeros(self.nlayers, bsz, self.nhid),
        )


def repackage_hidden(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


class Trainer:
    def __init__(self):
        self.model = seeded(RNNModel(12, 8, 10, 2))
        self.criterion = nn.NLLLoss()
        self.hidden = self.model.init_hidden(3)

    def train(self, data, targets):
        self.model.train()
        self.model.zero_grad()
        self.hidden = repackage_hidden(self.hidden)
        output, self.hidden = self.model(data, self.hidden)
        loss = self.criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 0.25)
        for p in self.model.parameters():
            p.data.add_(p.grad, alpha=-0.5)
        return loss


def steps():
    trainer = Trainer()
    return trainer.train, lambda i: (
        torch.from_numpy(integers(12, 6, 3, seed=i)),
        torch.from_numpy(integers(12, 18, seed=i + 1)),
    )
