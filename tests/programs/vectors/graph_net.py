"""Message passing on edges: `index_add_`, means by degree, and a read-out over graphs."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, normal, seeded


class GraphConv(nn.Module):
    def __init__(self, in_dim, out_dim):
        super().__init__()
        self.self_loop, self.neighbour = nn.Linear(in_dim, out_dim), nn.Linear(in_dim, out_dim, bias=False)

    def forward(self, x, edge_index):
        row, col = edge_index
        out = torch.zeros_like(x)
        out.index_add_(0, row, x[col])
        degree = torch.zeros(x.size(0)).scatter_add_(0, row, torch.ones(row.size(0)))
        return self.self_loop(x) + self.neighbour(out / degree.clamp(min=1).unsqueeze(-1))


class GNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([GraphConv(6, 6), GraphConv(6, 6)])
        self.head = nn.Linear(6, 2)

    def forward(self, x, edge_index, batch, graphs):
        for conv in self.convs:
            x = F.relu(conv(x, edge_index))
        pooled = torch.zeros(graphs, x.size(1)).index_add(0, batch, x)
        return self.head(pooled)


def steps():
    model = seeded(GNN())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

    def train(x, edge_index, batch, y):
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x, edge_index, batch, 3), y)
        loss.backward()
        optimizer.step()
        return float(loss)

    return train, lambda i: (
        torch.from_numpy(normal(12, 6, seed=i)),
        torch.from_numpy(integers(12, 2, 30, seed=i)),
        torch.arange(12) // 4,
        torch.from_numpy(integers(2, 3, seed=i)),
    )
