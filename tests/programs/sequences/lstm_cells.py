"""LSTM cells in a loop of time, that predict a sine wave on and on."""

import torch
import torch.nn as nn
from programs.common import normal, seeded


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm1 = nn.LSTMCell(1, 10)
        self.lstm2 = nn.LSTMCell(10, 10)
        self.linear = nn.Linear(10, 1)

    def forward(self, input, future=0):
        outputs = []
        h_t = torch.zeros(input.size(0), 10, dtype=torch.float)
        c_t = torch.zeros(input.size(0), 10, dtype=torch.float)
        h_t2 = torch.zeros(input.size(0), 10, dtype=torch.float)
        c_t2 = torch.zeros(input.size(0), 10, dtype=torch.float)
        for input_t in input.split(1, dim=1):
            h_t, c_t = self.lstm1(input_t, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        for _ in range(future):
            h_t, c_t = self.lstm1(output, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        return torch.cat(outputs, dim=1)


def steps():
    seq = seeded(Sequence())
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adagrad(seq.parameters(), lr=0.05)

    def train(data):
        optimizer.zero_grad()
        out = seq(data[:, :-1], future=2)
        loss = criterion(out[:, :-2], data[:, 1:])
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            pred = seq(data[:, :3], future=1)
        return loss, pred.sum()

    return train, lambda i: (torch.sin(torch.from_numpy(normal(4, 8, seed=i))),)
