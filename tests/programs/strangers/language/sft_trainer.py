"""Fine-tuning: labels masked in place by lengths of prompts or by a mask, a loop of contexts, validation at times."""

from contextlib import nullcontext
from functools import partial

import torch
import torch.nn.functional as F
from programs.common import integers, seeded
from torch import nn


def exists(v):
    return v is not None


def cycle(dl):
    while True:
        for batch in dl:
            yield batch


def prompt_mask_from_len(lengths, seq):
    seq_len, device = seq.shape[-1], seq.device
    return torch.arange(seq_len, device=device) < lengths[..., None]


class Accelerator:
    is_main_process = True

    def backward(self, loss):
        loss.backward()

    def no_sync(self, model):
        return nullcontext()

    def log(self, values, step):
        for tracker in ():
            tracker.log(values, step=step)

    def wait_for_everyone(self):
        pass


def model_forward_contexts(accelerator, model, grad_accum_steps):
    for i in range(grad_accum_steps):
        is_last_step = i == grad_accum_steps - 1
        maybe_no_sync = partial(accelerator.no_sync, model) if not is_last_step else nullcontext
        yield maybe_no_sync


class SFTTrainer(nn.Module):
    def __init__(self, model, train_dataloader, valid_dataloader=None, grad_accum_steps=2, valid_every=5):
        super().__init__()
        self.accelerator, self.model = Accelerator(), model
        self.ignore_index, self.grad_accum_steps = -1, grad_accum_steps
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        self.train_dl_iter = cycle(train_dataloader)
        self.valid_every, self.valid_dataloader = valid_every, valid_dataloader
        self.steps = 0

    def log(self, **data):
        self.accelerator.log(data, step=self.steps)

    def wait(self):
        return self.accelerator.wait_for_everyone()

    def get_cross_entropy_loss(self, seq, prompt_len_or_mask):
        if prompt_len_or_mask.dtype == torch.long:
            prompt_mask = prompt_mask_from_len(prompt_len_or_mask, seq)
        else:
            prompt_mask = prompt_len_or_mask
        seq, labels = seq[:, :-1].clone(), seq[:, 1:].clone()
        labels.masked_fill_(~prompt_mask[:, 1:], self.ignore_index)
        logits = self.model(seq)
        return F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=self.ignore_index)

    def train_step(self):
        self.model.train()
        for forward_context in model_forward_contexts(self.accelerator, self.model, self.grad_accum_steps):
            with forward_context():
                seq, prompt_len_or_mask = next(self.train_dl_iter)
                loss = self.get_cross_entropy_loss(seq, prompt_len_or_mask)
                self.accelerator.backward(loss / self.grad_accum_steps)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.log(loss=loss.item())
        self.steps += 1
        if exists(self.valid_dataloader) and not (self.steps % self.valid_every):
            self.wait()
            if self.accelerator.is_main_process:
                total_valid_loss = 0.0
                total_batches = 0.0
                self.model.eval()
                with torch.no_grad():
                    for seq, prompt_len_or_mask in self.valid_dataloader:
                        batch = seq.shape[0]
                        valid = self.get_cross_entropy_loss(seq, prompt_len_or_mask)
                        total_valid_loss += valid.item() * batch
                        total_batches += batch
                self.log(valid_loss=total_valid_loss / total_batches)
        return loss


def steps():
    model = seeded(nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 12), nn.GELU(), nn.Linear(12, 11)))
    data = [
        (
            torch.from_numpy(integers(11, 3, 7, seed=i)),
            torch.from_numpy(integers(4, 3, seed=i + 40) + 2)
            if i % 2
            else torch.from_numpy(integers(2, 3, 7, seed=i + 9) > 0),
        )
        for i in range(4)
    ]
    trainer = SFTTrainer(model, data, data[:2])
    return trainer.train_step, lambda i: ()
