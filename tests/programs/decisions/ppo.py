"""Proximal policy optimization: several epochs over a rollout in one call."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, normal, seeded


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
        self.actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))

    def get_action_and_value(self, x, action):
        logits = self.actor(x)
        logits = logits - logits.logsumexp(dim=-1, keepdim=True)
        probs = F.softmax(logits, dim=-1)
        entropy = -(logits * probs).sum(-1)
        return logits.gather(-1, action.long().unsqueeze(-1)).squeeze(-1), entropy, self.critic(x)


def steps():
    agent = seeded(Agent())
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-3, eps=1e-5)

    def update(b_obs, b_actions, b_logprobs, b_advantages, b_returns, b_values):
        for epoch in range(2):
            for start in range(0, 16, 8):
                mb_inds = slice(start, start + 8)
                newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb_inds], b_actions[mb_inds])
                logratio = newlogprob - b_logprobs[mb_inds]
                ratio = logratio.exp()
                with torch.no_grad():
                    approx_kl = ((ratio - 1) - logratio).mean()
                mb_advantages = b_advantages[mb_inds]
                mb_advantages = (mb_advantages - mb_advantages.mean()) / (mb_advantages.std() + 1e-8)
                pg_loss1 = -mb_advantages * ratio
                pg_loss2 = -mb_advantages * torch.clamp(ratio, 1 - 0.2, 1 + 0.2)
                pg_loss = torch.max(pg_loss1, pg_loss2).mean()
                newvalue = newvalue.view(-1)
                v_loss_unclipped = (newvalue - b_returns[mb_inds]) ** 2
                v_clipped = b_values[mb_inds] + torch.clamp(newvalue - b_values[mb_inds], -0.2, 0.2)
                v_loss_clipped = (v_clipped - b_returns[mb_inds]) ** 2
                v_loss = 0.5 * torch.max(v_loss_unclipped, v_loss_clipped).mean()
                loss = pg_loss - 0.01 * entropy.mean() + v_loss * 0.5
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        return loss, approx_kl

    return update, lambda i: (
        torch.from_numpy(normal(16, 4, seed=i)),
        torch.from_numpy(integers(3, 16, seed=i)),
        *(torch.from_numpy(0.1 * normal(16, seed=4 * i + j)) for j in range(4)),
    )
