"""A denoising convolutional autoencoder."""

import torch
import torch.nn as nn
from programs.common import normal, seeded, uniform


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 4, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(4, 8, 3, stride=2, padding=1),
            nn.ReLU(),
        )
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(4, 1, 3, stride=2, padding=1, output_padding=1),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return self.decoder(self.encoder(x))


def steps():
    model = seeded(Autoencoder())
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)

    def train(img, noise):
        noisy = torch.clamp(img + 0.3 * noise, 0.0, 1.0)
        recon = model(noisy)
        loss = nn.MSELoss()(recon, img)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.data

    return train, lambda i: (
        torch.from_numpy(uniform(4, 1, 8, 8, seed=i)),
        torch.from_numpy(normal(4, 1, 8, 8, seed=i)),
    )
