"""A Kalman filter whose noises are fitted by the likelihood of innovations."""

import torch
from programs.common import normal


def steps():
    F = torch.tensor([[1.0, 0.1], [0.0, 1.0]])
    H = torch.tensor([[1.0, 0.0]])
    log_q = torch.zeros(2, requires_grad=True)
    log_r = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.Adam([{"params": [log_q]}, {"params": [log_r], "lr": 0.1}], lr=0.05)

    def filtered(observations):
        Q, R = torch.diag(log_q.exp()), torch.diag(log_r.exp())
        x, P = torch.zeros(2), torch.eye(2)
        loss = 0.0
        for z in observations:
            x = F @ x
            P = F @ P @ F.t() + Q
            innovation = z - H @ x
            S = H @ P @ H.t() + R
            K = P @ H.t() @ torch.inverse(S)
            x = x + K @ innovation
            P = (torch.eye(2) - K @ H) @ P
            loss = loss + 0.5 * (torch.logdet(S) + innovation @ torch.linalg.solve(S, innovation))
        return loss / len(observations)

    def train(observations):
        optimizer.zero_grad()
        loss = filtered(observations)
        loss.backward()
        optimizer.step()
        return loss

    return train, lambda i: (torch.from_numpy(normal(7, 1, seed=i)).cumsum(0),)
