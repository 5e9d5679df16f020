"""Advantage actor-critic with generalised advantages over a short rollout."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, normal, seeded, uniform


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 16), nn.Tanh())
        self.actor, self.critic = nn.Linear(16, 3), nn.Linear(16, 1)

    def forward(self, x):
        x = self.body(x)
        return F.log_softmax(self.actor(x), -1), self.critic(x).squeeze(-1)


def advantages_of(rewards, values, masks, gamma=0.99, tau=0.95):
    gae, advantages = 0, []
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + gamma * values[t + 1] * masks[t] - values[t]
        gae = delta + gamma * tau * masks[t] * gae
        advantages.insert(0, gae)
    return torch.stack(advantages)


def steps():
    model = seeded(ActorCritic())
    optimizer = torch.optim.RMSprop(model.parameters(), lr=7e-4, eps=1e-5, alpha=0.99)

    def update(states, actions, rewards, masks):
        log_probs, values = model(states)
        advantages = advantages_of(rewards, values.detach(), masks)
        returns = advantages + values.detach()[:-1]
        chosen = log_probs[:-1].gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
        policy_loss = -(chosen * advantages).mean()
        value_loss = (returns - values[:-1]).pow(2).mean()
        loss = policy_loss + 0.5 * value_loss - 0.01 * entropy
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
        optimizer.step()
        return loss, policy_loss, value_loss

    return update, lambda i: (
        torch.from_numpy(normal(6, 4, 5, seed=i)),
        torch.from_numpy(integers(3, 5, 4, seed=i)),
        torch.from_numpy(normal(5, 4, seed=i + 1)),
        torch.from_numpy((uniform(5, 4, seed=i) > 0.2).astype("f4")),
    )
