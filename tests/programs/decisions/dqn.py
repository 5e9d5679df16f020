"""Deep Q-learning: a target net that follows softly, Huber loss, clipped gradients."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, normal, seeded, uniform

GAMMA, TAU = 0.99, 0.05


class DQN(nn.Module):
    def __init__(self, n_observations, n_actions):
        super().__init__()
        self.layer1 = nn.Linear(n_observations, 24)
        self.layer2 = nn.Linear(24, 24)
        self.layer3 = nn.Linear(24, n_actions)

    def forward(self, x):
        x = F.relu(self.layer1(x))
        x = F.relu(self.layer2(x))
        return self.layer3(x)


def steps():
    policy_net, target_net = seeded(DQN(4, 2)), DQN(4, 2)
    target_net.load_state_dict(policy_net.state_dict())
    optimizer = torch.optim.AdamW(policy_net.parameters(), lr=1e-3, amsgrad=True)

    def optimize_model(state_batch, action_batch, reward_batch, next_states, done):
        state_action_values = policy_net(state_batch).gather(1, action_batch)
        with torch.no_grad():
            next_state_values = target_net(next_states).max(1).values * (1 - done)
        expected_state_action_values = (next_state_values * GAMMA) + reward_batch
        criterion = nn.SmoothL1Loss()
        loss = criterion(state_action_values, expected_state_action_values.unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
        optimizer.step()
        target_net_state_dict = target_net.state_dict()
        policy_net_state_dict = policy_net.state_dict()
        for key in policy_net_state_dict:
            target_net_state_dict[key] = policy_net_state_dict[key] * TAU + target_net_state_dict[key] * (
                1 - TAU
            )
        target_net.load_state_dict(target_net_state_dict)
        return loss

    return optimize_model, lambda i: (
        torch.from_numpy(normal(8, 4, seed=i)),
        torch.from_numpy(integers(2, 8, 1, seed=i)),
        torch.from_numpy(normal(8, seed=i + 1)),
        torch.from_numpy(normal(8, 4, seed=i + 2)),
        torch.from_numpy((uniform(8, seed=i) > 0.8).astype("f4")),
    )
