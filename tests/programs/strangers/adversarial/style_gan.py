"""A generator by styles: a penalty on the gradients of real images, switches of requires_grad, a running copy."""

import random
from copy import deepcopy
from math import sqrt

import torch
from programs.common import normal, seeded
from torch import nn
from torch.autograd import grad
from torch.nn import functional as F

DRAWS = True


def requires_grad(model, flag=True):
    for p in model.parameters():
        p.requires_grad = flag


def accumulate(model1, model2, decay=0.999):
    par1 = dict(model1.named_parameters())
    par2 = dict(model2.named_parameters())
    for k in par1.keys():
        par1[k].data.mul_(decay).add_(par2[k].data, alpha=1 - decay)


def adjust_lr(optimizer, lr):
    for group in optimizer.param_groups:
        mult = group.get("mult", 1)
        group["lr"] = lr * mult


class AdaIn(nn.Module):
    def __init__(self, channels, style_dim):
        super().__init__()
        self.norm, self.style = nn.InstanceNorm2d(channels), nn.Linear(style_dim, channels * 2)

    def forward(self, input, style):
        style = self.style(style).unsqueeze(2).unsqueeze(3)
        gamma, beta = style.chunk(2, 1)
        return gamma * self.norm(input) + beta


class StyledGenerator(nn.Module):
    def __init__(self, code_dim=6, channels=6):
        super().__init__()
        self.code = nn.Sequential(nn.Linear(code_dim, code_dim), nn.LeakyReLU(0.2))
        self.input = nn.Parameter(torch.randn(1, channels, 4, 4))
        self.progression = nn.ModuleList([nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2)])
        self.adain = nn.ModuleList([AdaIn(channels, code_dim) for _ in range(2)])
        self.to_rgb = nn.ModuleList([nn.Conv2d(channels, 3, 1) for _ in range(2)])

    def forward(self, input, noise=None, step=0, alpha=-1, mean_style=None, style_weight=0):
        styles = []
        if type(input) not in (list, tuple):
            input = [input]
        for i in input:
            styles.append(self.code(i))
        batch = input[0].shape[0]
        if noise is None:
            noise = []
            for i in range(step + 1):
                size = 4 * 2**i
                noise.append(torch.randn(batch, 1, size, size))
        if len(styles) < 2:
            inject_index = [len(self.progression) + 1]
        else:
            inject_index = random.sample(list(range(step)), len(styles) - 1)
        crossover = 0
        out = self.input.repeat(batch, 1, 1, 1)
        for i, (conv, adain, to_rgb) in enumerate(zip(self.progression, self.adain, self.to_rgb)):
            if crossover < len(inject_index) and i > inject_index[crossover]:
                crossover = min(crossover + 1, len(styles))
            style_step = styles[crossover]
            if i > 0 and step > 0:
                upsample = F.interpolate(out, scale_factor=2, mode="bilinear", align_corners=False)
                out_prev, out = out, upsample
            out = adain(F.leaky_relu(conv(out) + noise[i], 0.2), style_step)
            if i == step:
                rgb = to_rgb(out)
                if i > 0 and 0 <= alpha < 1:
                    skip_rgb = F.interpolate(self.to_rgb[i - 1](out_prev), scale_factor=2)
                    rgb = (1 - alpha) * skip_rgb + alpha * rgb
                break
        return rgb


class Discriminator(nn.Module):
    def __init__(self, channels=6):
        super().__init__()
        self.from_rgb = nn.ModuleList([nn.Conv2d(3, channels, 1) for _ in range(2)])
        self.progression = nn.ModuleList(
            [nn.Conv2d(channels + (i == 0), channels, 3, padding=1) for i in range(2)]
        )
        self.linear = nn.Linear(channels, 1)

    def forward(self, input, step=0, alpha=-1):
        for i in range(step, -1, -1):
            if i == step:
                out = self.from_rgb[i](input)
            if i == 0:
                out_std = torch.sqrt(out.var(0, unbiased=False) + 1e-8)
                mean_std = out_std.mean()
                mean_std = mean_std.expand(out.size(0), 1, 4, 4)
                out = torch.cat([out, mean_std], 1)
            out = F.leaky_relu(self.progression[i](out), 0.2)
            if i > 0:
                out = F.avg_pool2d(out, 2)
                if i == step and 0 <= alpha < 1:
                    skip_rgb = self.from_rgb[i - 1](F.avg_pool2d(input, 2))
                    out = (1 - alpha) * skip_rgb + alpha * out
        return self.linear(out.mean((2, 3)) / sqrt(2))


def steps():
    random.seed(0)
    generator, discriminator = seeded(StyledGenerator()), seeded(Discriminator())
    g_running = deepcopy(generator)
    g_running.train(False)
    g_optimizer = torch.optim.Adam(
        [
            {"params": generator.progression.parameters()},
            {"params": generator.code.parameters(), "mult": 0.01},
        ],
        lr=1e-3,
        betas=(0.0, 0.99),
    )
    d_optimizer = torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.0, 0.99))
    adjust_lr(g_optimizer, 1e-3)
    requires_grad(generator, False)
    requires_grad(discriminator, True)
    code_size, step, phase, mixing = 6, 1, 40, True
    used_sample = 0

    def train(i, real_image):
        nonlocal used_sample
        discriminator.zero_grad()
        alpha = min(1, 1 / phase * (used_sample + 1))
        used_sample += real_image.shape[0]
        b_size = real_image.size(0)
        real_image.requires_grad = True
        real_scores = discriminator(real_image, step=step, alpha=alpha)
        real_predict = F.softplus(-real_scores).mean()
        real_predict.backward(retain_graph=True)
        grad_real = grad(outputs=real_scores.sum(), inputs=real_image, create_graph=True)[0]
        grad_penalty = (grad_real.view(grad_real.size(0), -1).norm(2, dim=1) ** 2).mean()
        grad_penalty = 10 / 2 * grad_penalty
        grad_penalty.backward()
        if mixing and random.random() < 0.9:
            gen_in11, gen_in12, gen_in21, gen_in22 = torch.randn(4, b_size, code_size).chunk(4, 0)
            gen_in1 = [gen_in11.squeeze(0), gen_in12.squeeze(0)]
            gen_in2 = [gen_in21.squeeze(0), gen_in22.squeeze(0)]
        else:
            gen_in1, gen_in2 = torch.randn(2, b_size, code_size).chunk(2, 0)
            gen_in1 = gen_in1.squeeze(0)
            gen_in2 = gen_in2.squeeze(0)
        fake_image = generator(gen_in1, step=step, alpha=alpha)
        fake_predict = discriminator(fake_image, step=step, alpha=alpha)
        fake_predict = F.softplus(fake_predict).mean()
        fake_predict.backward()
        d_optimizer.step()
        generator.zero_grad()
        requires_grad(generator, True)
        requires_grad(discriminator, False)
        fake_image = generator(gen_in2, step=step, alpha=alpha)
        predict = discriminator(fake_image, step=step, alpha=alpha)
        loss = F.softplus(-predict).mean()
        loss.backward()
        g_optimizer.step()
        accumulate(g_running, generator)
        requires_grad(generator, False)
        requires_grad(discriminator, True)
        return loss.detach(), real_predict.detach(), grad_penalty.detach()

    return train, lambda i: (i, torch.from_numpy(normal(2, 3, 8, 8, seed=i)))
