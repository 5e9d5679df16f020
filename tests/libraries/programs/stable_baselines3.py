"""stable-baselines3: the policies of PPO and DQN on fixed data, and learning that draws."""

from collections.abc import Callable

import gymnasium
import numpy as np
import torch
from stable_baselines3 import DQN, PPO

from libraries.case import Case, numbers, training, whole_numbers

QUICK = {"policy_kwargs": {"net_arch": [32, 32]}, "device": "cpu", "seed": 0}


class Line(gymnasium.Env):
    """A game of going to the right."""

    observation_space = gymnasium.spaces.Box(-2, 2, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.place, self.time = np.zeros(4, np.float32), 0
        return self.place.copy(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.place[0] += 0.1 if action else -0.1
        self.time += 1
        return self.place.copy(), float(self.place[0]), self.time >= 16, False, {}


def ppo() -> Case:
    policy = PPO("MlpPolicy", Line(), n_steps=32, batch_size=16, **QUICK).policy
    seen, actions, worth = numbers(16, 4), whole_numbers(2, 16), numbers(16, seed=1)

    def loss() -> torch.Tensor:
        values, log_density, entropy = policy.evaluate_actions(seen, actions)
        return (
            (values.flatten() - worth).square().mean() - (log_density * worth).mean() - 0.01 * entropy.mean()
        )

    return training(policy, loss)


def dqn() -> Case:
    network = DQN("MlpPolicy", Line(), buffer_size=100, **QUICK).q_net
    seen, actions, worth = numbers(16, 4), whole_numbers(2, 16, 1), numbers(16, 1, seed=1)
    return training(
        network, lambda: torch.nn.functional.smooth_l1_loss(network(seen).gather(1, actions), worth)
    )


def learned(build: Callable) -> Callable[[], Case]:
    def case() -> Case:
        def values() -> dict[str, object]:
            agent = build().learn(128)
            # What is drawn is not PyTorch's.
            finite = all(bool(torch.isfinite(p).all()) for p in agent.policy.parameters())
            return {"steps": agent.num_timesteps, "numbers": finite}

        return Case(values=values)

    return case


CASES = {
    "policy of PPO": ppo,
    "network of DQN": dqn,
    "PPO learns": learned(lambda: PPO("MlpPolicy", Line(), n_steps=32, batch_size=16, **QUICK)),
    "DQN learns": learned(lambda: DQN("MlpPolicy", Line(), buffer_size=100, learning_starts=20, **QUICK)),
}
