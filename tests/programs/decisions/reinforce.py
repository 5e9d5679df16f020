"""REINFORCE on recorded episodes: returns by a Python loop, log-probabilities of the actions taken."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, normal, seeded


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 16)
        self.affine2 = nn.Linear(16, 2)
        self.saved_log_probs = []

    def forward(self, x):
        x = F.relu(self.affine1(x))
        return F.softmax(self.affine2(x), dim=1)


def steps():
    policy = seeded(Policy())
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    eps, gamma = 1e-7, 0.99

    def finish_episode(states, actions, rewards):
        for state, action in zip(states, actions):
            probs = policy(state.unsqueeze(0))
            policy.saved_log_probs.append(torch.log(probs[0, action]))
        R = 0
        policy_loss = []
        returns = []
        for r in reversed(list(rewards)):
            R = r + gamma * R
            returns.insert(0, R)
        returns = torch.stack(returns)
        returns = (returns - returns.mean()) / (returns.std() + eps)
        for log_prob, R in zip(policy.saved_log_probs, returns):
            policy_loss.append(-log_prob * R)
        optimizer.zero_grad()
        policy_loss = torch.stack(policy_loss).sum()
        policy_loss.backward()
        optimizer.step()
        del policy.saved_log_probs[:]
        return policy_loss

    return finish_episode, lambda i: (
        torch.from_numpy(normal(6, 4, seed=i)),
        torch.from_numpy(integers(2, 6, seed=i)),
        torch.from_numpy(normal(6, seed=i + 9)),
    )
