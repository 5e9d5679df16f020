"""Rigid motions one after the other: a Function that goes along a chain and back, adding into parts of a copy."""

import torch
import torch.nn.functional as F
from programs.common import normal, seeded
from torch import nn
from torch.autograd import Function
from torch.nn import Module


def forward_pair(A, B):
    batch_size, num_rows, num_cols = A.size()
    assert num_rows == 3 and num_cols == 4
    assert A.size() == B.size()
    rA, rB = A.narrow(2, 0, 3), B.narrow(2, 0, 3)
    tA, tB = A.narrow(2, 3, 1), B.narrow(2, 3, 1)
    output = torch.empty_like(A)
    output.narrow(2, 0, 3).copy_(torch.bmm(rA, rB))
    output.narrow(2, 3, 1).copy_(torch.baddbmm(tA, rA, tB))
    return output


def backward_pair(grad, A, B):
    rA, rB = A.narrow(2, 0, 3), B.narrow(2, 0, 3)
    tB = B.narrow(2, 3, 1)
    r_g, t_g = grad.narrow(2, 0, 3), grad.narrow(2, 3, 1)
    A_g, B_g = torch.empty_like(grad), torch.empty_like(grad)
    A_g.narrow(2, 3, 1).copy_(t_g)
    B_g.narrow(2, 3, 1).copy_(torch.bmm(rA.transpose(1, 2), t_g))
    A_g.narrow(2, 0, 3).copy_(torch.bmm(r_g, rB.transpose(1, 2)).baddbmm_(t_g, tB.transpose(1, 2)))
    B_g.narrow(2, 0, 3).copy_(torch.bmm(rA.transpose(1, 2), r_g))
    return A_g, B_g


class ComposeRtFunction(Function):
    @staticmethod
    def forward(ctx, input, rightToLeft):
        ctx.rightToLeft = rightToLeft
        batch_size, num_se3, num_rows, num_cols = input.size()
        assert num_rows == 3 and num_cols == 4
        output = input.clone()
        for n in range(1, num_se3):
            if rightToLeft:
                output.select(1, n).copy_(forward_pair(input.select(1, n), output.select(1, n - 1)))
            else:
                output.select(1, n).copy_(forward_pair(output.select(1, n - 1), input.select(1, n)))
        ctx.save_for_backward(input, output)
        return output

    @staticmethod
    def backward(ctx, grad_output):
        input, output = ctx.saved_tensors
        batch_size, num_se3, num_rows, num_cols = input.size()
        assert num_rows == 3 and num_cols == 4
        temp = grad_output.clone()
        grad_input = input.clone().zero_()
        for n in range(num_se3 - 1, 0, -1):
            if ctx.rightToLeft:
                A_g, B_g = backward_pair(temp.select(1, n), input.select(1, n), output.select(1, n - 1))
                grad_input.select(1, n).copy_(A_g)
                temp.select(1, n - 1).add_(B_g)
            else:
                A_g, B_g = backward_pair(temp.select(1, n), output.select(1, n - 1), input.select(1, n))
                grad_input.select(1, n).copy_(B_g)
                temp.select(1, n - 1).add_(A_g)
        grad_input.select(1, 0).copy_(temp.select(1, 0))
        return grad_input, None


class ComposeRt(Module):
    def __init__(self, rightToLeft=False):
        super().__init__()
        self.rightToLeft = rightToLeft

    def forward(self, input):
        return ComposeRtFunction.apply(input, self.rightToLeft)


def steps():
    model = seeded(nn.Sequential(nn.Linear(6, 36), nn.Unflatten(1, (3, 3, 4))))
    left, right = ComposeRt(), ComposeRt(rightToLeft=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def train(x, points, y):
        transforms = model(x)
        loss = 0.0
        for composed in (left(transforms), right(transforms)):
            moved = composed[..., :3] @ points + composed[..., 3:]
            loss = loss + F.mse_loss(moved, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(4, 6, seed=i)),
        torch.from_numpy(normal(4, 3, 3, 5, seed=i + 1)),
        torch.from_numpy(normal(4, 3, 3, 5, seed=i + 2)),
    )
