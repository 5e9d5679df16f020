"""A radiance field: positional encodings, a net with a skip, and rendering along rays."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import normal, seeded, uniform


def positional_encoding(tensor, num_encoding_functions=3):
    encoding = [tensor]
    for frequency in 2.0 ** torch.linspace(0.0, num_encoding_functions - 1, num_encoding_functions):
        for func in [torch.sin, torch.cos]:
            encoding.append(func(tensor * frequency))
    return torch.cat(encoding, dim=-1)


def cumprod_exclusive(tensor):
    cumprod = torch.cumprod(tensor, -1)
    cumprod = torch.roll(cumprod, 1, -1)
    cumprod[..., 0] = 1.0
    return cumprod


class VeryTinyNerfModel(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.layer1, self.layer2 = nn.Linear(21, width), nn.Linear(width + 21, width)
        self.layer3 = nn.Linear(width, 4)

    def forward(self, x):
        h = F.relu(self.layer1(x))
        h = F.relu(self.layer2(torch.cat((h, x), dim=-1)))
        return self.layer3(h)


def render_volume_density(radiance_field, depth_values):
    sigma_a = F.relu(radiance_field[..., 3])
    rgb = torch.sigmoid(radiance_field[..., :3])
    one_e_10 = torch.tensor([1e10], dtype=depth_values.dtype).expand(depth_values[..., :1].shape)
    dists = torch.cat((depth_values[..., 1:] - depth_values[..., :-1], one_e_10), dim=-1)
    alpha = 1.0 - torch.exp(-sigma_a * dists)
    weights = alpha * cumprod_exclusive(1.0 - alpha + 1e-10)
    return (weights[..., None] * rgb).sum(dim=-2), (weights * depth_values).sum(dim=-1)


def steps():
    model = seeded(VeryTinyNerfModel())
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def train(origins, directions, jitter, target):
        depth = torch.linspace(2.0, 6.0, 5).expand(origins.size(0), 5) + 0.2 * jitter
        points = origins[..., None, :] + directions[..., None, :] * depth[..., :, None]
        encoded = positional_encoding(points.reshape((-1, 3)))
        field = model(encoded).reshape(*points.shape[:-1], 4)
        rgb, depth_map = render_volume_density(field, depth)
        loss = F.mse_loss(rgb, target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss, depth_map.mean()

    return train, lambda i: (
        torch.from_numpy(normal(6, 3, seed=i)),
        torch.from_numpy(normal(6, 3, seed=i + 1)),
        torch.from_numpy(uniform(6, 5, seed=i)),
        torch.from_numpy(uniform(6, 3, seed=i + 2)),
    )
