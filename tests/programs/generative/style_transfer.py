"""An image optimised so that a net's features have given Gram matrices; losses are modules that keep theirs."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import seeded, uniform


def gram_matrix(input):
    a, b, c, d = input.size()
    features = input.view(a * b, c * d)
    return torch.mm(features, features.t()).div(a * b * c * d)


class ContentLoss(nn.Module):
    def __init__(self, target):
        super().__init__()
        self.target = target.detach()
        self.loss = F.mse_loss(self.target, self.target)

    def forward(self, input):
        self.loss = F.mse_loss(input, self.target)
        return input


class StyleLoss(nn.Module):
    def __init__(self, target_feature):
        super().__init__()
        self.target = gram_matrix(target_feature).detach()
        self.loss = F.mse_loss(self.target, self.target)

    def forward(self, input):
        self.loss = F.mse_loss(gram_matrix(input), self.target)
        return input


def steps():
    cnn = seeded(
        nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 6, 3, padding=1))
    ).eval()
    content, style = torch.from_numpy(uniform(1, 3, 8, 8)), torch.from_numpy(uniform(1, 3, 8, 8, seed=1))
    content_loss, style_loss = ContentLoss(cnn(content)), StyleLoss(cnn(style))
    model = nn.Sequential(*cnn, content_loss, style_loss)
    model.requires_grad_(False)
    input_img = content.clone().requires_grad_(True)
    optimizer = torch.optim.Adam([input_img], lr=0.05)

    def train():
        with torch.no_grad():
            input_img.clamp_(0, 1)
        optimizer.zero_grad()
        model(input_img)
        loss = 1e4 * style_loss.loss + content_loss.loss
        loss.backward()
        optimizer.step()
        return loss

    return train, lambda i: ()
