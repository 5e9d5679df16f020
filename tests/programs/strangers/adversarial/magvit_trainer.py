"""A tokenizer's trainer: adversarial from a step on, an adaptive weight by gradients, warm-up, averages, prints."""

from collections import namedtuple
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from functools import partial

import torch
import torch.nn.functional as F
from programs.common import normal, seeded
from torch import nn
from torch.autograd import grad as torch_grad

LossBreakdown = namedtuple("LossBreakdown", ["recon_loss", "perceptual_loss", "adversarial_gen_loss"])
DiscrLossBreakdown = namedtuple("DiscrLossBreakdown", ["discr_loss", "gradient_penalty"])


def exists(v):
    return v is not None


def cycle(dl):
    while True:
        for data in dl:
            yield data


def gradient_penalty(images, output):
    gradients = torch_grad(
        outputs=output,
        inputs=images,
        grad_outputs=torch.ones(output.size()),
        create_graph=True,
        retain_graph=True,
        only_inputs=True,
    )[0]
    gradients = gradients.flatten(1)
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


def hinge_discr_loss(fake, real):
    return (F.relu(1 + fake) + F.relu(1 - real)).mean()


def hinge_gen_loss(fake):
    return -fake.mean()


def grad_layer_wrt_loss(loss, layer):
    return torch_grad(outputs=loss, inputs=layer, grad_outputs=torch.ones_like(loss), retain_graph=True)[
        0
    ].detach()


class VideoTokenizer(nn.Module):
    def __init__(self, dim=6):
        super().__init__()
        self.use_gan, self.has_multiscale_discrs = True, False
        self.conv_in, self.conv_out = nn.Conv3d(2, dim, 3, padding=1), nn.Conv3d(dim, 2, 3, padding=1)
        self.discr = nn.Sequential(nn.Conv2d(2, dim, 3, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(dim, 1, 3))
        self.adversarial_loss_weight, self.perceptual_loss_weight = 1.0, 0.1
        self.grad_penalty_loss_weight = 10.0
        self.register_buffer("zero", torch.tensor(0.0), persistent=False)

    def parameters(self):
        return [*self.conv_in.parameters(), *self.conv_out.parameters()]

    def discr_parameters(self):
        return self.discr.parameters()

    def forward(
        self,
        video,
        return_loss=False,
        return_discr_loss=False,
        apply_gradient_penalty=True,
        adversarial_loss_weight=None,
    ):
        assert (return_loss + return_discr_loss) <= 1
        assert video.ndim in {4, 5}
        x = F.silu(self.conv_in(video))
        quantized = torch.where(x > 0, 1.0, -1.0)
        x = x + (quantized - x).detach()
        recon_video = self.conv_out(x)
        frames = video[:, :, 1]
        recon = recon_video[:, :, 1]
        if return_discr_loss:
            frames = frames.detach().requires_grad_()
            fake_logits, real_logits = map(self.discr, (recon.detach(), frames))
            discr_loss = hinge_discr_loss(fake_logits, real_logits)
            gradient_penalty_loss = self.zero
            if apply_gradient_penalty:
                gradient_penalty_loss = gradient_penalty(frames, real_logits)
            total_loss = discr_loss + gradient_penalty_loss * self.grad_penalty_loss_weight
            return total_loss, DiscrLossBreakdown(discr_loss, gradient_penalty_loss)
        recon_loss = F.mse_loss(video, recon_video)
        perceptual_loss = F.l1_loss(F.avg_pool2d(recon, 2), F.avg_pool2d(frames, 2))
        gen_loss, adaptive_weight = self.zero, 0.0
        if adversarial_loss_weight is None or adversarial_loss_weight > 0.0:
            gen_loss = hinge_gen_loss(self.discr(recon))
            last_dec_layer = self.conv_out.weight
            norm_grad_wrt_perceptual_loss = grad_layer_wrt_loss(perceptual_loss, last_dec_layer).norm(p=2)
            norm_grad_wrt_gen_loss = grad_layer_wrt_loss(gen_loss, last_dec_layer).norm(p=2)
            adaptive_weight = norm_grad_wrt_perceptual_loss / norm_grad_wrt_gen_loss.clamp(min=1e-3)
            adaptive_weight.clamp_(max=1e3)
            if torch.isnan(adaptive_weight).any():
                adaptive_weight = 1.0
        total_loss = (
            recon_loss
            + perceptual_loss * self.perceptual_loss_weight
            + gen_loss * adaptive_weight * self.adversarial_loss_weight
        )
        return total_loss, LossBreakdown(recon_loss, perceptual_loss, gen_loss)


class LinearWarmup:
    def __init__(self, optimizer, warmup_period):
        self.optimizer, self.warmup_period, self.last_step = optimizer, warmup_period, -1
        self.lrs = [group["lr"] for group in optimizer.param_groups]
        self.dampen()

    def dampen(self):
        self.last_step += 1
        for group in self.optimizer.param_groups:
            group["lr"] *= min(1.0, (self.last_step + 1) / self.warmup_period)

    @contextmanager
    def dampening(self):
        for group, lr in zip(self.optimizer.param_groups, self.lrs):
            group["lr"] = lr
        yield
        self.lrs = [group["lr"] for group in self.optimizer.param_groups]
        self.dampen()


class Accelerator:
    optimizer_step_was_skipped = False
    is_main_process = True

    def log(self, values, step=None):
        for tracker in ():
            tracker.log(values, step=step)

    def print(self, *args):
        if self.is_main_process:
            print(*args)

    def no_sync(self, model):
        return nullcontext()

    def autocast(self):
        return nullcontext()

    def backward(self, loss):
        loss.backward()

    def clip_grad_norm_(self, parameters, norm):
        nn.utils.clip_grad_norm_(parameters, norm)


class VideoTokenizerTrainer:
    def __init__(self, model, grad_accum_every=1, discr_start_after_step=2, max_grad_norm=0.5):
        self.accelerator, self.model = Accelerator(), model
        self.ema_model = deepcopy(model).requires_grad_(False)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        self.discr_optimizer = torch.optim.Adam(model.discr_parameters(), lr=1e-3)
        self.warmup = LinearWarmup(self.optimizer, 4)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lr_lambda=lambda step: 1.0)
        self.grad_accum_every, self.max_grad_norm = grad_accum_every, max_grad_norm
        self.discr_start_after_step, self.apply_gradient_penalty_every = discr_start_after_step, 4
        self.step = 0

    def log(self, **data_kwargs):
        self.accelerator.log(data_kwargs, step=self.step)

    def print(self, msg):
        return self.accelerator.print(msg)

    def wait(self):
        pass

    @torch.no_grad()
    def update_ema(self, decay=0.9):
        for average, parameter in zip(self.ema_model.parameters(), self.model.parameters()):
            average.lerp_(parameter, 1.0 - decay)

    def train_step(self, dl_iter):
        self.model.train()
        step = self.step
        train_adversarially = self.model.use_gan and (step + 1) > self.discr_start_after_step
        adversarial_loss_weight = 0.0 if not train_adversarially else None
        self.optimizer.zero_grad()
        for grad_accum_step in range(self.grad_accum_every):
            is_last = grad_accum_step == (self.grad_accum_every - 1)
            context = partial(self.accelerator.no_sync, self.model) if not is_last else nullcontext
            data, *_ = next(dl_iter)
            with self.accelerator.autocast(), context():
                loss, loss_breakdown = self.model(
                    data, return_loss=True, adversarial_loss_weight=adversarial_loss_weight
                )
                self.accelerator.backward(loss / self.grad_accum_every)
        self.log(
            total_loss=loss.item(),
            recon_loss=loss_breakdown.recon_loss.item(),
            perceptual_loss=loss_breakdown.perceptual_loss.item(),
            adversarial_gen_loss=loss_breakdown.adversarial_gen_loss.item(),
        )
        self.print(f"recon loss: {loss_breakdown.recon_loss.item():.3f}")
        if exists(self.max_grad_norm):
            self.accelerator.clip_grad_norm_(self.model.parameters(), self.max_grad_norm)
        self.optimizer.step()
        if not self.accelerator.optimizer_step_was_skipped:
            with self.warmup.dampening():
                self.scheduler.step()
        self.wait()
        if self.accelerator.is_main_process:
            self.update_ema()
        self.wait()
        if not train_adversarially:
            self.step += 1
            return loss
        self.discr_optimizer.zero_grad()
        apply_gradient_penalty = not (step % self.apply_gradient_penalty_every)
        for grad_accum_step in range(self.grad_accum_every):
            is_last = grad_accum_step == (self.grad_accum_every - 1)
            context = partial(self.accelerator.no_sync, self.model) if not is_last else nullcontext
            data, *_ = next(dl_iter)
            with self.accelerator.autocast(), context():
                discr_loss, discr_loss_breakdown = self.model(
                    data, return_discr_loss=True, apply_gradient_penalty=apply_gradient_penalty
                )
                self.accelerator.backward(discr_loss / self.grad_accum_every)
        self.log(discr_loss=discr_loss_breakdown.discr_loss.item())
        if apply_gradient_penalty:
            self.log(gradient_penalty=discr_loss_breakdown.gradient_penalty.item())
        self.print(f"discr loss: {discr_loss_breakdown.discr_loss.item():.3f}")
        if exists(self.max_grad_norm):
            self.accelerator.clip_grad_norm_(self.model.discr_parameters(), self.max_grad_norm)
        self.discr_optimizer.step()
        self.step += 1
        return loss


def steps():
    trainer = VideoTokenizerTrainer(seeded(VideoTokenizer()))
    dl_iter = cycle([(torch.from_numpy(normal(2, 2, 3, 6, 6, seed=i)),) for i in range(5)])
    return partial(trainer.train_step, dl_iter), lambda i: ()
