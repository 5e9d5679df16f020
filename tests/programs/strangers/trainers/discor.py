"""DisCor: critics weighted by errors that further nets learn, weights from a given step on, running scales."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import normal, seeded, uniform


def soft_update(target, source, tau):
    for t, s in zip(target.parameters(), source.parameters()):
        t.data.mul_(1.0 - tau)
        t.data.add_(tau * s.data)


def disable_gradient(network):
    for param in network.parameters():
        param.requires_grad = False


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(inplace=True), nn.Linear(16, 2))

    def forward(self, states):
        return self.net(states).tanh_()


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(inplace=True), nn.Linear(16, 1))

    def forward(self, states, actions):
        return self.net(torch.cat([states, actions], dim=-1))


class Twinned(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1, self.net2 = Critic(), Critic()

    def forward(self, states, actions):
        return self.net1(states, actions), self.net2(states, actions)


class DisCor:
    def __init__(self):
        self.actor, self.critic, self.error = seeded(Actor()), seeded(Twinned()), seeded(Twinned(), 1)
        self.critic_target, self.error_target = Twinned().eval(), Twinned().eval()
        for target, source in ((self.critic_target, self.critic), (self.error_target, self.error)):
            soft_update(target, source, 1.0)
            disable_gradient(target)
        self.optim_actor = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.optim_critic = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
        self.optim_error = torch.optim.Adam(self.error.parameters(), lr=1e-3)
        self.tau1 = torch.tensor(10.0, requires_grad=False)
        self.tau2 = torch.tensor(10.0, requires_grad=False)
        self.gamma, self.start_steps_is, self.learning_steps, self.coef = 0.99, 3, 0, 5e-3

    def update(self, states, actions, rewards, dones, next_states):
        self.learning_steps += 1
        td_errors1, td_errors2, loss = self.update_critic_is(states, actions, rewards, dones, next_states)
        self.update_error(states, actions, dones, next_states, td_errors1, td_errors2)
        q1, q2 = self.critic(states, self.actor(states))
        loss_actor = -torch.min(q1, q2).mean()
        self.optim_actor.zero_grad()
        loss_actor.backward(retain_graph=False)
        self.optim_actor.step()
        soft_update(self.critic_target, self.critic, self.coef)
        soft_update(self.error_target, self.error, self.coef)
        return loss

    def sample_next_errors(self, next_states):
        with torch.no_grad():
            return self.error_target(next_states, self.actor(next_states))

    def calculate_imp_ws(self, next_states, dones):
        next_errors1, next_errors2 = self.sample_next_errors(next_states)
        x1 = -(1.0 - dones) * self.gamma * next_errors1 / self.tau1
        x2 = -(1.0 - dones) * self.gamma * next_errors2 / self.tau2
        return F.softmax(x1, dim=0), F.softmax(x2, dim=0)

    def update_critic_is(self, states, actions, rewards, dones, next_states):
        curr_qs1, curr_qs2 = self.critic(states, actions)
        with torch.no_grad():
            next_qs = torch.min(*self.critic_target(next_states, self.actor(next_states)))
        target_qs = rewards + (1.0 - dones) * self.gamma * next_qs
        td_errors1, td_errors2 = torch.abs(curr_qs1 - target_qs), torch.abs(curr_qs2 - target_qs)
        if self.learning_steps >= self.start_steps_is:
            imp_ws1, imp_ws2 = self.calculate_imp_ws(next_states, dones)
        else:
            imp_ws1 = imp_ws2 = 1 / dones.size(0)
        loss_critic1 = td_errors1.pow(2).mul_(imp_ws1).sum()
        loss_critic2 = td_errors2.pow(2).mul_(imp_ws2).sum()
        self.optim_critic.zero_grad()
        (loss_critic1 + loss_critic2).backward(retain_graph=False)
        self.optim_critic.step()
        return td_errors1.detach_(), td_errors2.detach_(), (loss_critic1 + loss_critic2).detach()

    def update_error(self, states, actions, dones, next_states, td_errors1, td_errors2):
        curr_errors1, curr_errors2 = self.error(states, actions)
        next_errors1, next_errors2 = self.sample_next_errors(next_states)
        target_errors1 = td_errors1 + self.gamma * (1.0 - dones) * next_errors1
        target_errors2 = td_errors2 + self.gamma * (1.0 - dones) * next_errors2
        loss_error1 = (curr_errors1 - target_errors1).pow_(2).mean()
        loss_error2 = (curr_errors2 - target_errors2).pow_(2).mean()
        self.optim_error.zero_grad()
        (loss_error1 + loss_error2).backward(retain_graph=False)
        self.optim_error.step()
        with torch.no_grad():
            self.tau1.data.mul_(1.0 - self.coef)
            self.tau2.data.mul_(1.0 - self.coef)
            self.tau1.data.add_(self.coef * curr_errors1.mean().data)
            self.tau2.data.add_(self.coef * curr_errors2.mean().data)


def steps():
    algorithm = DisCor()

    def batch(i):
        t = torch.from_numpy
        return (t(normal(8, 4, seed=i)), t(normal(8, 2, seed=i)), t(normal(8, 1, seed=i + 1)),
                t((uniform(8, 1, seed=i) > 0.8).astype("f4")), t(normal(8, 4, seed=i + 2)))  # fmt: skip

    return algorithm.update, batch
