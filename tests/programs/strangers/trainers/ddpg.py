"""DDPG: critic, actor and slow copies, each with an optimizer, a count of steps, squares in place."""

import torch
import torch.nn as nn
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


class DDPG:
    def __init__(self):
        self.actor, self.critic = seeded(Actor()), seeded(Critic())
        self.actor_target, self.critic_target = Actor().eval(), Critic().eval()
        soft_update(self.actor_target, self.actor, 1.0)
        soft_update(self.critic_target, self.critic, 1.0)
        disable_gradient(self.actor_target)
        disable_gradient(self.critic_target)
        self.optim_actor = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.optim_critic = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
        self.learning_steps, self.discount = 0, 0.99

    def update(self, states, actions, rewards, dones, next_states):
        self.learning_steps += 1
        loss = self.update_critic(states, actions, rewards, dones, next_states)
        self.update_actor(states)
        soft_update(self.actor_target, self.actor, 5e-3)
        soft_update(self.critic_target, self.critic, 5e-3)
        return loss

    def update_critic(self, states, actions, rewards, dones, next_states):
        curr_qs = self.critic(states, actions)
        with torch.no_grad():
            next_actions = self.actor_target(next_states)
            next_qs = self.critic_target(next_states, next_actions)
        target_qs = rewards + (1.0 - dones) * self.discount * next_qs
        loss_critic = (curr_qs - target_qs).pow_(2).mean()
        self.optim_critic.zero_grad()
        loss_critic.backward(retain_graph=False)
        self.optim_critic.step()
        return loss_critic

    def update_actor(self, states):
        loss_actor = -self.critic(states, self.actor(states)).mean()
        self.optim_actor.zero_grad()
        loss_actor.backward(retain_graph=False)
        self.optim_actor.step()


def steps():
    algorithm = DDPG()

    def batch(i):
        t = torch.from_numpy
        return (t(normal(8, 4, seed=i)), t(normal(8, 2, seed=i)), t(normal(8, 1, seed=i + 1)),
                t((uniform(8, 1, seed=i) > 0.8).astype("f4")), t(normal(8, 4, seed=i + 2)))  # fmt: skip

    return algorithm.update, batch
