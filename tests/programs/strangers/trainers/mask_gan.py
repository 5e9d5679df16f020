"""MaskGAN: three rollouts by tags through one module, rewards added up over time, meters."""

from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, seeded, uniform


class AverageMeter:
    def __init__(self):
        self.sum, self.count, self.avg = 0, 0, 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n
        self.avg = self.sum / self.count


class REINFORCE(nn.Module):
    def __init__(self, gamma, clip_value):
        super().__init__()
        self.gamma = gamma
        self.clip_value = clip_value
        self.log_sigmoid = torch.nn.LogSigmoid()

    def forward(self, log_probs, logits, weight, baselines=None):
        batch_size, seqlen, _ = logits.size()
        rewards = self.log_sigmoid(logits).squeeze(2)
        cumulative_rewards = []
        for t in range(seqlen):
            cum_value = rewards.new_zeros(batch_size)
            for s in range(t, seqlen):
                exp = float(s - t)
                k = self.gamma**exp
                cum_value += k * weight[:, s] * rewards[:, s]
            cumulative_rewards.append(cum_value)
        cumulative_rewards = torch.stack(cumulative_rewards, dim=1)
        if baselines is not None:
            advantages = cumulative_rewards - baselines.squeeze(2)
        else:
            advantages = cumulative_rewards
        advantages = advantages - advantages.mean(dim=0)
        advantages = advantages.clamp(-1 * self.clip_value, self.clip_value)
        return (advantages * log_probs).sum(dim=0), cumulative_rewards.clone()


class MGANModel(nn.Module):
    def __init__(self, vocab=9, d=8):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.generator, self.logits = nn.GRU(d, d, batch_first=True), nn.Linear(d, vocab)
        self.discriminator, self.score = nn.GRU(d, d, batch_first=True), nn.Linear(d, 1)
        self.critic = nn.Linear(d, 1)
        self.reinforce = REINFORCE(0.9, 5.0)

    def forward(self, *args, **kwargs):
        tag = kwargs.pop("tag")
        if tag == "g-step":
            return self._gstep(*args, **kwargs)
        elif tag == "c-step":
            return self._cstep(*args, **kwargs)
        return self._dstep(*args, **kwargs)

    def generate(self, masked, noise):
        logits = self.logits(self.generator(self.embed(masked))[0])
        log_p = F.log_softmax(logits, -1)
        samples = (log_p + noise).argmax(-1)
        return samples, log_p.gather(-1, samples.unsqueeze(-1)).squeeze(-1)

    def _dstep(self, mask, sequence, real=True):
        logits = self.score(self.discriminator(self.embed(sequence))[0])
        truths = torch.ones_like(logits) if real else torch.ones_like(logits) - mask.unsqueeze(2)
        return F.binary_cross_entropy_with_logits(logits, truths, reduction="none")

    def _cstep(self, masked, mask, noise):
        with torch.no_grad():
            samples, log_probs = self.generate(masked, noise)
            logits = self.score(self.discriminator(self.embed(samples))[0])
            _, cumulative = self.reinforce(log_probs, logits, mask)
        baselines = self.critic(self.embed(masked)).squeeze(2)
        return F.mse_loss(baselines, cumulative, reduction="none")

    def _gstep(self, masked, mask, noise):
        samples, log_probs = self.generate(masked, noise)
        with torch.no_grad():
            logits = self.score(self.discriminator(self.embed(samples))[0])
            baselines = self.critic(self.embed(masked))
        loss, _ = self.reinforce(log_probs, logits, mask, baselines)
        return -1 * loss, samples


class MGANTrainer:
    def __init__(self):
        self.model = seeded(MGANModel())
        self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.meters = defaultdict(lambda: AverageMeter())

    def run(self, masked, unmasked, mask, noise):
        self.model.train()
        batch_size = masked.size(0)
        self.opt.zero_grad()
        for _ in range(2):
            real_loss = self.model(mask, unmasked, tag="d-step", real=True).sum() / batch_size
            with torch.no_grad():
                net_output = self.model(masked, mask, noise, tag="g-step")
                generated = net_output[1]
            fake_loss = self.model(mask, generated, tag="d-step", real=False).sum() / batch_size
            loss = (real_loss + fake_loss) / 2
            loss.backward()
            self.meters["real"].update(real_loss.item())
            self.meters["fake"].update(fake_loss.item())
        self.opt.step()
        self.opt.zero_grad()
        g_loss, _ = self.model(masked, mask, noise, tag="g-step")
        g_loss = g_loss.sum() / batch_size
        g_loss.backward()
        self.meters["generator"].update(-1 * g_loss.item())
        self.opt.step()
        self.opt.zero_grad()
        c_loss = self.model(masked, mask, noise, tag="c-step").sum() / batch_size
        c_loss.backward()
        self.opt.step()
        return loss, g_loss, c_loss


def steps():
    trainer = MGANTrainer()

    def batch(i):
        t = torch.from_numpy
        gumbel = -torch.log(-torch.log(t(uniform(3, 3, 9, seed=i)) * 0.98 + 0.01))
        return (
            t(integers(9, 3, 3, seed=i)),
            t(integers(9, 3, 3, seed=i + 1)),
            t(integers(2, 3, 3, seed=i).astype("f4")),
            gumbel,
        )

    return trainer.run, batch
