"""torch_geometric: convolutions on graphs, attention, and pooling over batches of graphs."""

from collections.abc import Callable

import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GATConv, GCNConv, SAGEConv, global_max_pool, global_mean_pool

from libraries.case import Case, numbers, training, whole_numbers


def graph(seed: int = 0) -> Data:
    edges = whole_numbers(12, 2, 40, seed=seed)
    return Data(x=numbers(12, 8, seed=seed), edge_index=edges, y=whole_numbers(3, 12, seed=seed))


class Network(torch.nn.Module):
    def __init__(self, layer: Callable) -> None:
        super().__init__()
        self.first, self.second = layer(8, 16), layer(16, 3)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x, edges).relu(), edges)


def nodes(layer: Callable) -> Callable[[], Case]:
    def case() -> Case:
        model, data = Network(layer), graph()
        return training(
            model, lambda: torch.nn.functional.cross_entropy(model(data.x, data.edge_index), data.y), rate=0.1
        )

    return case


def pooled() -> Case:
    model, batch = Network(GCNConv), Batch.from_data_list([graph(1), graph(2), graph(3)])
    goal = numbers(3, 6)

    def loss() -> torch.Tensor:
        hidden = model(batch.x, batch.edge_index)
        pooled = torch.cat([global_mean_pool(hidden, batch.batch), global_max_pool(hidden, batch.batch)], -1)
        return torch.nn.functional.mse_loss(pooled, goal)

    return training(model, loss)


CASES = {"GCN": nodes(GCNConv), "GAT": nodes(GATConv), "GraphSAGE": nodes(SAGEConv), "pooling": pooled}
