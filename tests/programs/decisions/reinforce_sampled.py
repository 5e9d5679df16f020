"""A policy gradient whose actions are drawn from the policy by `multinomial`."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import normal, seeded

DRAWS = True


def steps():
    policy = seeded(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)))
    payoff = torch.from_numpy(normal(4, 3, seed=3))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)

    def train(states):
        logits = policy(states)
        probabilities = F.softmax(logits, dim=-1)
        with torch.no_grad():
            actions = torch.multinomial(probabilities, 1).squeeze(-1)
        rewards = (states @ payoff).gather(1, actions[:, None]).squeeze(1)
        log_prob = F.log_softmax(logits, dim=-1).gather(1, actions.unsqueeze(1)).squeeze(1)
        loss = -(log_prob * (rewards - rewards.mean())).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
        optimizer.step()
        return loss, rewards.mean()

    return train, lambda i: (torch.from_numpy(normal(16, 4, seed=i)),)
