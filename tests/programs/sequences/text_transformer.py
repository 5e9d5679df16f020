"""An encoder that classifies sequences of different lengths, padded."""

import torch
import torch.nn as nn
from programs.common import integers, seeded


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16, padding_idx=0)
        layer = nn.TransformerEncoderLayer(
            16, 4, dim_feedforward=32, dropout=0.0, activation="gelu", batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.fc = nn.Linear(16, 3)

    def forward(self, tokens):
        padding = tokens.eq(0)
        hidden = self.encoder(self.embed(tokens), src_key_padding_mask=padding)
        kept = (~padding).unsqueeze(-1).float()
        pooled = (hidden * kept).sum(1) / kept.sum(1).clamp(min=1)
        return self.fc(pooled)


def steps():
    model = seeded(Classifier())
    model.embed.weight.data[0] = 0
    optimizer = torch.optim.NAdam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5]))

    def train(tokens, labels):
        optimizer.zero_grad()
        loss = criterion(model(tokens), labels)
        loss.backward()
        optimizer.step()
        return loss

    def batch(i):
        tokens = integers(19, 4, 7, seed=i) + 1
        tokens[0, 5:] = tokens[2, 3:] = 0
        return torch.from_numpy(tokens), torch.from_numpy(integers(3, 4, seed=i))

    return train, batch
