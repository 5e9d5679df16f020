"""Matrix factorization with biases, by plain SGD."""

import torch
from programs.common import integers, normal, seeded


class MatrixFactorization(torch.nn.Module):
    def __init__(self, n_users, n_items, n_factors=5):
        super().__init__()
        self.user_factors = torch.nn.Embedding(n_users, n_factors)
        self.item_factors = torch.nn.Embedding(n_items, n_factors)
        self.user_biases = torch.nn.Embedding(n_users, 1)
        self.item_biases = torch.nn.Embedding(n_items, 1)

    def forward(self, user, item):
        pred = self.user_biases(user) + self.item_biases(item)
        pred += (self.user_factors(user) * self.item_factors(item)).sum(1, keepdim=True)
        return pred.squeeze()


def steps():
    model = seeded(MatrixFactorization(12, 15))
    loss_func = torch.nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-1)

    def train(user, item, rating):
        optimizer.zero_grad()
        prediction = model(user, item)
        loss = loss_func(prediction, rating)
        loss.backward()
        optimizer.step()
        return loss.item()

    return train, lambda i: (
        torch.LongTensor(integers(12, 9, seed=i)),
        torch.LongTensor(integers(15, 9, seed=i + 1)),
        torch.FloatTensor(normal(9, seed=i)),
    )
