"""Soft actor-critic: a squashed policy, two critics, a temperature, four optimizers."""

import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import normal, seeded

LOG_SIG_MAX, LOG_SIG_MIN = 2, -20


class QNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1 = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
        self.q2 = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, state, action):
        xu = torch.cat([state, action], 1)
        return self.q1(xu), self.q2(xu)


class GaussianPolicy(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.mean, self.log_std = nn.Linear(3, 16), nn.Linear(16, 2), nn.Linear(16, 2)

    def sample(self, state, noise):
        x = F.relu(self.trunk(state))
        mean, log_std = self.mean(x), torch.clamp(self.log_std(x), min=LOG_SIG_MIN, max=LOG_SIG_MAX)
        x_t = mean + log_std.exp() * noise
        action = torch.tanh(x_t)
        log_prob = (
            -0.5 * noise.pow(2) - log_std - 0.5 * math.log(2 * math.pi) - torch.log(1 - action.pow(2) + 1e-6)
        )
        return action, log_prob.sum(1, keepdim=True)


def soft_update(target, source, tau):
    for target_param, param in zip(target.parameters(), source.parameters()):
        target_param.data.copy_(target_param.data * (1.0 - tau) + param.data * tau)


def steps():
    critic, policy = seeded(QNetwork()), seeded(GaussianPolicy(), seed=1)
    critic_target = copy.deepcopy(critic)
    critic_optim = torch.optim.Adam(critic.parameters(), lr=3e-3)
    policy_optim = torch.optim.Adam(policy.parameters(), lr=3e-3)
    log_alpha = torch.zeros(1, requires_grad=True)
    alpha_optim = torch.optim.Adam([log_alpha], lr=3e-3)

    def update_parameters(state, action, reward, next_state, noise, next_noise):
        alpha = log_alpha.exp().detach()
        with torch.no_grad():
            next_action, next_log_pi = policy.sample(next_state, next_noise)
            qf1_next, qf2_next = critic_target(next_state, next_action)
            next_q = reward + 0.99 * (torch.min(qf1_next, qf2_next) - alpha * next_log_pi)
        qf1, qf2 = critic(state, action)
        qf_loss = F.mse_loss(qf1, next_q) + F.mse_loss(qf2, next_q)
        critic_optim.zero_grad()
        qf_loss.backward()
        critic_optim.step()
        pi, log_pi = policy.sample(state, noise)
        policy_loss = ((alpha * log_pi) - torch.min(*critic(state, pi))).mean()
        policy_optim.zero_grad()
        policy_loss.backward()
        policy_optim.step()
        alpha_loss = -(log_alpha * (log_pi - 2.0).detach()).mean()
        alpha_optim.zero_grad()
        alpha_loss.backward()
        alpha_optim.step()
        soft_update(critic_target, critic, 0.05)
        return qf_loss.item(), policy_loss.item(), alpha_loss.item()

    def batch(i):
        shapes = ((6, 3), (6, 2), (6, 1), (6, 3), (6, 2), (6, 2))
        return tuple(torch.from_numpy(normal(*shape, seed=6 * i + j)) for j, shape in enumerate(shapes))

    return update_parameters, batch
