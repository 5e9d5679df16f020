"""Sentiment of sentences of different lengths: packed sequences through a bidirectional GRU."""

import torch
import torch.nn as nn
from programs.common import integers, seeded
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Sentiment(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(25, 8, padding_idx=0)
        self.rnn = nn.GRU(8, 6, num_layers=2, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(12, 1)

    def forward(self, text, lengths):
        packed = pack_padded_sequence(self.embedding(text), lengths, batch_first=True, enforce_sorted=False)
        packed_output, hidden = self.rnn(packed)
        output, output_lengths = pad_packed_sequence(packed_output, batch_first=True)
        hidden = torch.cat((hidden[-2, :, :], hidden[-1, :, :]), dim=1)
        return self.fc(hidden).squeeze(1) + 0.1 * output.mean((1, 2))


def steps():
    model = seeded(Sentiment())
    optimizer = torch.optim.Adam(model.parameters())
    criterion = nn.BCEWithLogitsLoss()
    lengths = torch.tensor([7, 3, 5, 1])

    def train(text, label):
        optimizer.zero_grad()
        predictions = model(text, lengths)
        loss = criterion(predictions, label)
        loss.backward()
        optimizer.step()
        rounded_preds = torch.round(torch.sigmoid(predictions))
        return loss, (rounded_preds == label).float().mean()

    def batch(i):
        text = integers(24, 4, 7, seed=i) + 1
        for row, length in enumerate((7, 3, 5, 1)):
            text[row, length:] = 0
        return torch.from_numpy(text), torch.from_numpy(integers(2, 4, seed=i)).float()

    return train, batch
