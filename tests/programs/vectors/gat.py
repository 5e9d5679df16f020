"""Graph attention on a dense adjacency matrix."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, normal, seeded, uniform


class GraphAttentionLayer(nn.Module):
    def __init__(self, in_features, out_features, alpha=0.2, concat=True):
        super().__init__()
        self.concat, self.out_features = concat, out_features
        self.W = nn.Parameter(torch.empty(size=(in_features, out_features)))
        nn.init.xavier_uniform_(self.W.data, gain=1.414)
        self.a = nn.Parameter(torch.empty(size=(2 * out_features, 1)))
        nn.init.xavier_uniform_(self.a.data, gain=1.414)
        self.leakyrelu = nn.LeakyReLU(alpha)

    def forward(self, h, adj):
        Wh = torch.mm(h, self.W)
        Wh1 = torch.matmul(Wh, self.a[: self.out_features, :])
        Wh2 = torch.matmul(Wh, self.a[self.out_features :, :])
        e = self.leakyrelu(Wh1 + Wh2.T)
        zero_vec = -9e15 * torch.ones_like(e)
        attention = torch.where(adj > 0, e, zero_vec)
        attention = F.softmax(attention, dim=1)
        h_prime = torch.matmul(attention, Wh)
        return F.elu(h_prime) if self.concat else h_prime


class GAT(nn.Module):
    def __init__(self):
        super().__init__()
        self.attentions = [GraphAttentionLayer(6, 4) for _ in range(2)]
        for i, attention in enumerate(self.attentions):
            self.add_module(f"attention_{i}", attention)
        self.out_att = GraphAttentionLayer(8, 3, concat=False)

    def forward(self, x, adj):
        x = torch.cat([att(x, adj) for att in self.attentions], dim=1)
        x = F.elu(self.out_att(x, adj))
        return F.log_softmax(x, dim=1)


def steps():
    model = seeded(GAT())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005, weight_decay=5e-4)
    train_mask = torch.arange(10) < 6
    adj = torch.from_numpy((uniform(10, 10) > 0.5).astype("f4")) + torch.eye(10)

    def train(features, labels):
        model.train()
        optimizer.zero_grad()
        output = model(features, adj)
        losses = F.nll_loss(output, labels, reduction="none")
        loss_train = (losses * train_mask).sum() / train_mask.sum()
        loss_train.backward()
        optimizer.step()
        return loss_train, (output.max(1)[1] == labels).double().mean()

    return train, lambda i: (
        torch.from_numpy(normal(10, 6, seed=i)),
        torch.from_numpy(integers(3, 10, seed=i)),
    )
