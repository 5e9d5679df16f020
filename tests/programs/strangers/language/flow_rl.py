"""Rewards matched by flows: a partition function of prompts cut at the longest, two optimizers, a line a batch."""

from collections import namedtuple

import numpy as np
import torch
import torch.nn.functional as F
from programs.common import integers, normal, seeded
from torch import nn

Memory = namedtuple("Memory", ["sequence", "prompt_mask", "mask", "old_probs", "old_log_probs", "rewards"])


def exists(val):
    return val is not None


def shift(t, value=0, shift=1, dim=-1):
    zeros = (0, 0) * (-dim - 1)
    return F.pad(t, (*zeros, shift, -shift), value=value)


class Accelerate:
    def print(self, *args):
        print(*args)

    def backward(self, loss):
        loss.backward()

    def clip_grad_norm_(self, parameters, max_norm):
        return nn.utils.clip_grad_norm_(parameters, max_norm)


class LanguageModel(nn.Module):
    def __init__(self, num_tokens, dim):
        super().__init__()
        self.emb, self.mix = nn.Embedding(num_tokens, dim), nn.GRU(dim, dim, batch_first=True)
        self.scopes = nn.ModuleDict({"actor": nn.Linear(dim, dim)})
        self.to_logits = nn.Linear(dim, num_tokens, bias=False)

    def forward(self, x, return_only_embedding=False, finetune_scope=None):
        embeds, _ = self.mix(self.emb(x))
        if exists(finetune_scope):
            embeds = embeds + self.scopes[finetune_scope](embeds)
        if return_only_embedding:
            return embeds
        return self.to_logits(embeds)


class Actor(nn.Module):
    def __init__(self, palm, actor_lora=True, actor_lora_scope="actor"):
        super().__init__()
        self.actor_palm, self.actor_lora = palm, actor_lora
        self.actor_lora_scope = actor_lora_scope if actor_lora else None

    def parameters(self):
        if not self.actor_lora:
            return self.actor_palm.parameters()
        return [*self.actor_palm.scopes[self.actor_lora_scope].parameters()]

    def forward(self, x, mask=None):
        logits = self.actor_palm(x, finetune_scope=self.actor_lora_scope)
        if exists(mask):
            logits = logits.masked_fill(~mask[..., None], 0.0)
        return logits


class FlowRLTrainer(nn.Module):
    def __init__(self, palm, dim):
        super().__init__()
        self.accelerate = Accelerate()
        self.palm, self.actor = palm, Actor(palm)
        self.partition_function = nn.Sequential(nn.Linear(dim, 8), nn.SiLU(), nn.Linear(8, 1), nn.Flatten(0))
        seeded(self)
        self.eps_clip, self.beta, self.max_norm = 0.2, 15.0, 0.5
        self.actor_optim = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.partition_function_optim = torch.optim.Adam(self.partition_function.parameters(), lr=1e-3)

    def print(self, msg):
        return self.accelerate.print(msg)

    def learn(self, sequences, prompt_masks, masks, old_action_probs, old_log_probs, normalized_rewards):
        action_masks = ~prompt_masks & masks
        action_logits = self.actor(sequences, mask=action_masks)
        action_logits = shift(action_logits, shift=1, dim=-2)
        action_len = old_log_probs.shape[-1]
        action_probs = action_logits.softmax(dim=-1)
        action_log_probs = action_probs.gather(-1, sequences[..., None])[..., 0]
        action_log_probs = action_log_probs[:, -action_len:]
        with torch.no_grad():
            ref_logits = self.palm(sequences, finetune_scope=None)
            ref_logits = shift(ref_logits, shift=1, dim=-2)
            ref_probs = ref_logits.softmax(dim=-1)
            ref_log_probs = ref_probs.gather(-1, sequences[..., None])[..., 0]
            ref_log_probs = ref_log_probs[:, -action_len:]
        trajectory_log_ratio = (action_log_probs - old_log_probs).sum(dim=-1)
        trajectory_ratio = torch.exp(trajectory_log_ratio)
        clipped_ratio = torch.clamp(trajectory_ratio, 1 - self.eps_clip, 1 + self.eps_clip)
        importance_weight = clipped_ratio.detach()
        with torch.no_grad():
            prompt_lens = prompt_masks.sum(dim=1)
            max_prompt_len = prompt_lens.max().item()
            prompt_tokens = sequences[:, :max_prompt_len]
            prompt_final_embeddings = self.actor.actor_palm(
                prompt_tokens,
                return_only_embedding=True,
                finetune_scope=self.actor.actor_lora_scope if self.actor.actor_lora else None,
            )
            prompt_mask_truncated = prompt_masks[:, :max_prompt_len]
            masked_embeddings = prompt_final_embeddings * prompt_mask_truncated[..., None]
            prompt_embeddings = masked_embeddings.sum(dim=1) / prompt_lens[:, None]
        log_z_phi = self.partition_function(prompt_embeddings)
        response_lengths = action_masks.sum(dim=1).float().clamp(min=1.0)
        norm_policy_log_probs = action_log_probs.sum(dim=-1) / response_lengths
        norm_ref_log_probs = ref_log_probs.sum(dim=-1) / response_lengths
        trajectory_balance = (
            log_z_phi + norm_policy_log_probs - self.beta * normalized_rewards - norm_ref_log_probs
        )
        flowrl_loss = importance_weight * (trajectory_balance**2)
        loss = flowrl_loss.mean()
        self.accelerate.backward(loss)
        self.print(
            f"flowrl_loss: {loss.item():.3f}, trajectory_balance: {trajectory_balance.mean().item():.3f}"
        )
        if exists(self.max_norm):
            self.accelerate.clip_grad_norm_(self.actor.parameters(), self.max_norm)
        self.actor_optim.step()
        self.actor_optim.zero_grad()
        self.partition_function_optim.step()
        self.partition_function_optim.zero_grad()
        return loss


def steps():
    trainer = FlowRLTrainer(LanguageModel(13, 8), 8)

    def batch(i):
        lengths = integers(4, 3, 1, seed=i) + 2
        prompts = torch.from_numpy(np.arange(9) < lengths)
        return Memory(
            torch.from_numpy(integers(13, 3, 9, seed=i)),
            prompts,
            torch.from_numpy(np.arange(9) < 8 - integers(2, 3, 1, seed=i)),
            None,
            torch.from_numpy(abs(normal(3, 4, seed=i)) * 0.1),
            torch.from_numpy(normal(3, seed=i)),
        )

    return trainer.learn, batch
