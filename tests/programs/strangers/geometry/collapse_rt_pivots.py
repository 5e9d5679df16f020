"""Rigid motions with pivots collapsed: a Function that writes its results into views of new memory, both ways."""

import torch
import torch.nn.functional as F
from programs.common import normal, seeded
from torch import nn
from torch.autograd import Function
from torch.nn import Module


class CollapseRtPivotsFunction(Function):
    @staticmethod
    def forward(ctx, input):
        batch_size, num_se3, num_rows, num_cols = input.size()
        assert num_rows == 3 and num_cols == 5
        ctx.save_for_backward(input)
        input_v = input.view(-1, 3, 5)
        r = input_v.narrow(2, 0, 3)
        t = input_v.narrow(2, 3, 1)
        p = input_v.narrow(2, 4, 1)
        output = input.new_empty(batch_size * num_se3, 3, 4)
        output.narrow(2, 0, 3).copy_(r)
        output.narrow(2, 3, 1).copy_(t + p).add_(torch.bmm(r, p), alpha=-1)
        return output.view(batch_size, num_se3, 3, 4)

    @staticmethod
    def backward(ctx, grad_output):
        input = ctx.saved_tensors[0]
        input_v = input.view(-1, 3, 5)
        r = input_v.narrow(2, 0, 3)
        p = input_v.narrow(2, 4, 1)
        ro_g = grad_output.reshape(-1, 3, 4).narrow(2, 0, 3)
        to_g = grad_output.reshape(-1, 3, 4).narrow(2, 3, 1)
        input_g = torch.empty_like(input_v)
        input_g.narrow(2, 0, 3).copy_(ro_g).add_(torch.bmm(to_g, p.transpose(1, 2)), alpha=-1)
        input_g.narrow(2, 3, 1).copy_(to_g)
        input_g.narrow(2, 4, 1).copy_(to_g).add_(torch.bmm(r.transpose(1, 2), to_g), alpha=-1)
        return input_g.view_as(input)


class CollapseRtPivots(Module):
    def forward(self, input):
        return CollapseRtPivotsFunction.apply(input)


def steps():
    model = seeded(nn.Sequential(nn.Linear(6, 30), nn.Unflatten(1, (2, 3, 5)), CollapseRtPivots()))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def train(x, points, y):
        transforms = model(x)
        moved = transforms[..., :3] @ points + transforms[..., 3:]
        loss = F.mse_loss(moved, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(4, 6, seed=i)),
        torch.from_numpy(normal(4, 2, 3, 5, seed=i + 1)),
        torch.from_numpy(normal(4, 2, 3, 5, seed=i + 2)),
    )
