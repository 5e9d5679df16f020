"""A discriminator's and a generator's steps of one trainer: gradient penalties, logits at several sizes, meters."""

import random
from collections import namedtuple

import torch
import torch.nn.functional as F
from programs.common import normal, seeded
from torch import nn
from torch.autograd import grad as torch_grad

DRAWS = True

TrainDiscrLosses = namedtuple(
    "TrainDiscrLosses", ["divergence", "multiscale_divergence", "gradient_penalty", "aux_reconstruction"]
)
TrainGenLosses = namedtuple("TrainGenLosses", ["divergence", "multiscale_divergence"])


def exists(val):
    return val is not None


def cycle(dl):
    while True:
        for data in dl:
            yield data


def gradient_penalty(images, outputs, grad_output_weights=None, weight=10, center=0.0, eps=1e-4):
    if not isinstance(outputs, (list, tuple)):
        outputs = [outputs]
    if not exists(grad_output_weights):
        grad_output_weights = (1,) * len(outputs)
    maybe_scaled_gradients, *_ = torch_grad(
        outputs=outputs,
        inputs=images,
        grad_outputs=[
            (torch.ones_like(output) * weight) for output, weight in zip(outputs, grad_output_weights)
        ],
        create_graph=True,
        retain_graph=True,
        only_inputs=True,
    )
    gradients = maybe_scaled_gradients.flatten(1)
    return weight * ((gradients.norm(2, dim=1) - center) ** 2).mean()


def generator_hinge_loss(fake):
    return fake.mean()


def discriminator_hinge_loss(real, fake):
    return (F.relu(1 + real) + F.relu(1 - fake)).mean()


class DiffAugment(nn.Module):
    def __init__(self, *, prob, horizontal_flip, horizontal_flip_prob=0.5):
        super().__init__()
        self.prob = prob
        self.horizontal_flip, self.horizontal_flip_prob = horizontal_flip, horizontal_flip_prob

    def forward(self, images, rgbs):
        if random.random() >= self.prob:
            return images, rgbs
        if random.random() < self.horizontal_flip_prob:
            images = torch.flip(images, (-1,))
            rgbs = [torch.flip(rgb, (-1,)) for rgb in rgbs]
        return images, rgbs


class Generator(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.dim = dim
        self.begin, self.mid = nn.Linear(dim, dim * 4), nn.Conv2d(dim, dim, 3, padding=1)
        self.to_rgb_small, self.to_rgb = nn.Conv2d(dim, 3, 1), nn.Conv2d(dim, 3, 1)

    def forward(self, noise, batch_size=None, return_all_rgbs=False):
        x = self.begin(noise).view(batch_size, self.dim, 2, 2)
        x = F.interpolate(x, scale_factor=2)
        small = self.to_rgb_small(x)
        x = F.leaky_relu(self.mid(F.interpolate(x, scale_factor=2)), 0.1)
        rgb = self.to_rgb(x) + F.interpolate(small, scale_factor=2)
        if return_all_rgbs:
            return rgb, [small]
        return rgb


class Discriminator(nn.Module):
    def __init__(self, dim=6):
        super().__init__()
        self.from_rgb, self.from_small = nn.Conv2d(3, dim, 3, padding=1), nn.Conv2d(3, dim, 3, padding=1)
        self.down, self.to_logits = nn.Conv2d(dim, dim, 4, 2, 1), nn.Conv2d(dim, 1, 4)
        self.to_multiscale, self.recon = nn.Conv2d(dim, 1, 4), nn.Conv2d(dim, 3, 1)

    def real_images_to_rgbs(self, images):
        return [F.interpolate(images, (4, 4))]

    def forward(self, images, rgbs, return_multiscale_outputs=True, calc_aux_loss=True):
        x = F.leaky_relu(self.down(F.leaky_relu(self.from_rgb(images), 0.1)), 0.1)
        x = x + self.from_small(rgbs[0])
        multiscale_outputs = [self.to_multiscale(x).flatten()] if return_multiscale_outputs else []
        aux = [F.mse_loss(F.interpolate(self.recon(x), scale_factor=2), images)] if calc_aux_loss else []
        return self.to_logits(x).flatten(), multiscale_outputs, aux


class GigaGAN(nn.Module):
    def __init__(self):
        super().__init__()
        self.G, self.D = Generator(), Discriminator()
        seeded(self)
        self.G_opt = torch.optim.AdamW(self.G.parameters(), lr=2e-4, betas=(0.5, 0.9))
        self.D_opt = torch.optim.AdamW(self.D.parameters(), lr=2e-4, betas=(0.5, 0.9))
        self.diff_augment = DiffAugment(prob=0.5, horizontal_flip=True)
        self.multiscale_divergence_loss_weight, self.discr_aux_recon_loss_weight = 0.1, 1.0
        self.apply_gradient_penalty_every = 4
        self.register_buffer("steps", torch.ones(1, dtype=torch.long))
        self.unconditional = True

    def generate_kwargs(self, dl_iter, batch_size):
        G_kwargs = dict(batch_size=batch_size)
        noise = torch.randn(batch_size, self.G.dim)
        G_kwargs.update(noise=noise)
        return G_kwargs, dict()

    def train_discriminator_step(
        self, dl_iter, grad_accum_every=1, apply_gradient_penalty=False, calc_multiscale_loss=True
    ):
        total_divergence = 0.0
        total_gp_loss = 0.0
        total_aux_loss = 0.0
        total_multiscale_divergence = 0.0 if calc_multiscale_loss else None
        all_fake_images, all_fake_rgbs = [], []
        self.G.train()
        self.D.train()
        self.D_opt.zero_grad()
        for _ in range(grad_accum_every):
            real_images = next(dl_iter)
            real_images = real_images.to("cpu")
            real_images.requires_grad_()
            real_images_rgbs = self.D.real_images_to_rgbs(real_images)
            if exists(self.diff_augment):
                real_images, real_images_rgbs = self.diff_augment(real_images, real_images_rgbs)
            batch_size = real_images.shape[0]
            G_kwargs, maybe_text_kwargs = self.generate_kwargs(dl_iter, batch_size)
            with torch.no_grad():
                images, rgbs = self.G(**G_kwargs, **maybe_text_kwargs, return_all_rgbs=True)
                all_fake_images.append(images)
                all_fake_rgbs.append(rgbs)
                if exists(self.diff_augment):
                    images, rgbs = self.diff_augment(images, rgbs)
                images.detach_()
                images.requires_grad_()
                for rgb in rgbs:
                    rgb.detach_()
                    rgb.requires_grad_()
            fake_logits, fake_multiscale_logits, _ = self.D(
                images, rgbs, return_multiscale_outputs=calc_multiscale_loss, calc_aux_loss=False
            )
            real_logits, real_multiscale_logits, aux_recon_losses = self.D(
                real_images,
                real_images_rgbs,
                return_multiscale_outputs=calc_multiscale_loss,
                calc_aux_loss=True,
            )
            divergence = discriminator_hinge_loss(real_logits, fake_logits)
            total_divergence += divergence.item() / grad_accum_every
            multiscale_divergence = 0.0
            if self.multiscale_divergence_loss_weight > 0.0 and len(fake_multiscale_logits) > 0:
                for multiscale_fake, multiscale_real in zip(fake_multiscale_logits, real_multiscale_logits):
                    multiscale_loss = discriminator_hinge_loss(multiscale_real, multiscale_fake)
                    multiscale_divergence = multiscale_divergence + multiscale_loss
                total_multiscale_divergence += multiscale_divergence.item() / grad_accum_every
            gp_loss = 0.0
            if apply_gradient_penalty:
                real_gp_loss = gradient_penalty(
                    real_images,
                    outputs=[real_logits, *real_multiscale_logits],
                    grad_output_weights=[
                        1.0,
                        *(self.multiscale_divergence_loss_weight,) * len(real_multiscale_logits),
                    ],
                )
                fake_gp_loss = gradient_penalty(
                    images,
                    outputs=[fake_logits, *fake_multiscale_logits],
                    grad_output_weights=[
                        1.0,
                        *(self.multiscale_divergence_loss_weight,) * len(fake_multiscale_logits),
                    ],
                )
                gp_loss = real_gp_loss + fake_gp_loss
                if not torch.isnan(gp_loss):
                    total_gp_loss += gp_loss.item() / grad_accum_every
            total_loss = divergence + gp_loss
            if self.multiscale_divergence_loss_weight > 0.0:
                total_loss = total_loss + multiscale_divergence * self.multiscale_divergence_loss_weight
            if self.discr_aux_recon_loss_weight > 0.0:
                aux_loss = sum(aux_recon_losses)
                total_aux_loss += aux_loss.item() / grad_accum_every
                total_loss = total_loss + aux_loss * self.discr_aux_recon_loss_weight
            (total_loss / grad_accum_every).backward()
        self.D_opt.step()
        return TrainDiscrLosses(total_divergence, total_multiscale_divergence, total_gp_loss, total_aux_loss)

    def train_generator_step(
        self, batch_size=None, dl_iter=None, grad_accum_every=1, calc_multiscale_loss=True
    ):
        total_divergence = 0.0
        total_multiscale_divergence = 0.0 if calc_multiscale_loss else None
        self.G.train()
        self.D.train()
        self.D_opt.zero_grad()
        self.G_opt.zero_grad()
        for _ in range(grad_accum_every):
            G_kwargs, maybe_text_kwargs = self.generate_kwargs(dl_iter, batch_size)
            images, rgbs = self.G(**G_kwargs, **maybe_text_kwargs, return_all_rgbs=True)
            if exists(self.diff_augment):
                images, rgbs = self.diff_augment(images, rgbs)
            logits, multiscale_logits, _ = self.D(
                images, rgbs, return_multiscale_outputs=calc_multiscale_loss, calc_aux_loss=False
            )
            divergence = generator_hinge_loss(logits)
            total_divergence += divergence.item() / grad_accum_every
            total_loss = divergence
            if self.multiscale_divergence_loss_weight > 0.0 and len(multiscale_logits) > 0:
                multiscale_divergence = 0.0
                for multiscale_logit in multiscale_logits:
                    multiscale_divergence = multiscale_divergence + generator_hinge_loss(multiscale_logit)
                total_multiscale_divergence += multiscale_divergence.item() / grad_accum_every
                total_loss = total_loss + multiscale_divergence * self.multiscale_divergence_loss_weight
            (total_loss / grad_accum_every).backward()
        self.G_opt.step()
        return TrainGenLosses(total_divergence, total_multiscale_divergence)

    def train_step(self, dl_iter, batch_size):
        steps = self.steps.item()
        apply_gradient_penalty = self.apply_gradient_penalty_every > 0 and not (
            steps % self.apply_gradient_penalty_every
        )
        d = self.train_discriminator_step(dl_iter, apply_gradient_penalty=apply_gradient_penalty)
        g = self.train_generator_step(dl_iter=dl_iter, batch_size=batch_size)
        self.steps += 1
        return (*d, *g)


def steps():
    random.seed(0)
    gan = GigaGAN()
    dl_iter = (torch.from_numpy(normal(2, 3, 8, 8, seed=i % 5)) for i in range(1000))
    return lambda: gan.train_step(dl_iter, 2), lambda i: ()
