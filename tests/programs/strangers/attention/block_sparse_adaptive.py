"""Sparse attention by learned patterns: the blocks that a scorer chooses, found by `nonzero`, gone over one by one."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import normal, seeded

DRAWS = True


@dataclass
class AdaptiveConfig:
    base_sparsity: float = 0.5
    temperature: float = 1.0
    learnable_temperature: bool = True
    min_temperature: float = 0.1
    hidden_dim: int = 8
    num_layers: int = 2
    share_across_heads: bool = False
    sparsity_reg_weight: float = 0.01
    hard_sparsity: bool = False


class ImportanceScorer(nn.Module):
    def __init__(self, input_dim, hidden_dim, num_layers, num_heads, share_across_heads=False):
        super().__init__()
        self.input_dim, self.hidden_dim = input_dim, hidden_dim
        self.num_heads, self.share_across_heads = num_heads, share_across_heads
        self.head_projections = nn.ModuleList(
            [nn.Linear(input_dim * 2, hidden_dim) for _ in range(num_heads)]
        )
        self.head_networks = nn.ModuleList(
            [
                nn.Sequential(
                    nn.ReLU(), nn.Linear(hidden_dim, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, 1)
                )
                for _ in range(num_heads)
            ]
        )

    def forward(self, q_summary, k_summary, head_idx=None):
        batch_size, num_q_blocks, _ = q_summary.shape
        _, num_k_blocks, _ = k_summary.shape
        q_expanded = q_summary.unsqueeze(2).expand(-1, -1, num_k_blocks, -1)
        k_expanded = k_summary.unsqueeze(1).expand(-1, num_q_blocks, -1, -1)
        qk_concat = torch.cat([q_expanded, k_expanded], dim=-1)
        qk_flat = qk_concat.reshape(-1, self.input_dim * 2)
        hidden = self.head_projections[head_idx](qk_flat)
        scores = self.head_networks[head_idx](hidden)
        return scores.reshape(batch_size, num_q_blocks, num_k_blocks)


class BlockSparse(nn.Module):
    def forward(self, q, k, v, is_causal=False):
        batch, seq_len, num_heads, head_dim = q.shape
        num_blocks = seq_len // self.block_size
        row_idx, col_idx = self._get_sparse_block_indices(num_blocks, num_heads, q.device)
        q_blocks, k_blocks, v_blocks = (
            t.reshape(batch, num_blocks, self.block_size, num_heads, head_dim).transpose(2, 3)
            for t in (q, k, v)
        )
        scores = q_blocks[:, row_idx] @ k_blocks[:, col_idx].transpose(-2, -1) / math.sqrt(head_dim)
        weighted = torch.softmax(scores, dim=-1) @ v_blocks[:, col_idx]
        output = torch.zeros_like(q_blocks).index_add(1, row_idx, weighted)
        return output.transpose(2, 3).reshape(batch, seq_len, num_heads, head_dim)


class BlockSparseAdaptive(BlockSparse):
    def __init__(self, num_heads, head_dim, block_size, adaptive_config=None):
        super().__init__()
        self.num_heads, self.head_dim, self.block_size = num_heads, head_dim, block_size
        self.adaptive_config = adaptive_config or AdaptiveConfig()
        self.importance_scorer = ImportanceScorer(
            head_dim, self.adaptive_config.hidden_dim, self.adaptive_config.num_layers, num_heads
        )
        self.log_temperature = nn.Parameter(torch.log(torch.tensor(self.adaptive_config.temperature)))
        self.q_summary_proj = nn.Linear(head_dim, head_dim)
        self.k_summary_proj = nn.Linear(head_dim, head_dim)

    def _compute_block_summaries(self, q, k, head_idx):
        batch_size, seq_len, _, _ = q.shape
        num_blocks = seq_len // self.block_size
        q_head, k_head = q[:, :, head_idx, :], k[:, :, head_idx, :]
        q_blocks = q_head.reshape(batch_size, num_blocks, self.block_size, self.head_dim)
        k_blocks = k_head.reshape(batch_size, num_blocks, self.block_size, self.head_dim)
        return self.q_summary_proj(q_blocks.mean(dim=2)), self.k_summary_proj(k_blocks.mean(dim=2))

    def _gumbel_softmax_topk(self, scores, k, temperature, hard=False):
        batch_size, num_q_blocks, num_k_blocks = scores.shape
        if self.training:
            gumbel_noise = -torch.log(-torch.log(torch.rand_like(scores) + 1e-10) + 1e-10)
            scores = scores + gumbel_noise
        mask = torch.zeros_like(scores)
        for i in range(num_q_blocks):
            block_scores = scores[:, i, :]
            _, topk_indices = torch.topk(block_scores, k, dim=-1)
            if not hard:
                block_probs = F.softmax(block_scores / temperature, dim=-1)
                for b in range(batch_size):
                    mask[b, i, topk_indices[b]] = 1.0
                mask[:, i, :] = mask[:, i, :] * 0.9 + block_probs * 0.1
            else:
                for b in range(batch_size):
                    mask[b, i, topk_indices[b]] = 1.0
        return mask

    def _generate_adaptive_pattern(self, q, k, head_idx, target_sparsity=None):
        batch_size, seq_len, _, _ = q.shape
        num_blocks = seq_len // self.block_size
        device = q.device
        q_summary, k_summary = self._compute_block_summaries(q, k, head_idx)
        importance_scores = self.importance_scorer(q_summary, k_summary, head_idx)
        if target_sparsity is None:
            target_sparsity = self.adaptive_config.base_sparsity
        total_blocks = num_blocks * num_blocks
        num_active = int(total_blocks * (1 - target_sparsity))
        k_per_query = max(1, num_active // num_blocks)
        temperature = torch.exp(self.log_temperature)
        if self.adaptive_config.learnable_temperature:
            temperature = torch.clamp(temperature, min=self.adaptive_config.min_temperature)
        selection_mask = self._gumbel_softmax_topk(
            importance_scores, k_per_query, temperature, hard=self.adaptive_config.hard_sparsity
        )
        avg_mask = selection_mask.mean(0)
        threshold = 0.5 if self.adaptive_config.hard_sparsity else 0.1
        active_blocks = (avg_mask > threshold).nonzero()
        if len(active_blocks) > 0:
            row_indices = active_blocks[:, 0]
            col_indices = active_blocks[:, 1]
        else:
            row_indices = torch.arange(num_blocks, device=device)
            col_indices = torch.arange(num_blocks, device=device)
        return row_indices, col_indices

    def forward(self, q, k, v, is_causal=False):
        batch_size, seq_len, num_heads, head_dim = q.shape
        outputs = []
        for h in range(num_heads):
            row_indices, col_indices = self._generate_adaptive_pattern(q, k, h)
            q_head = q[:, :, h : h + 1, :]
            k_head = k[:, :, h : h + 1, :]
            v_head = v[:, :, h : h + 1, :]
            self._adaptive_indices = (row_indices, col_indices)
            outputs.append(super().forward(q_head, k_head, v_head, is_causal))
        return torch.cat(outputs, dim=2)

    def _get_sparse_block_indices(self, num_blocks, num_heads, device):
        if hasattr(self, "_adaptive_indices"):
            indices = self._adaptive_indices
            delattr(self, "_adaptive_indices")
            return indices
        raise RuntimeError("no pattern")


def steps():
    model = seeded(nn.ModuleDict({"qkv": nn.Linear(8, 24), "attend": BlockSparseAdaptive(2, 4, 4)}))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def train(x, y):
        q, k, v = model["qkv"](x).view(2, 16, 3, 2, 4).unbind(2)
        loss = F.mse_loss(model["attend"](q, k, v).flatten(2), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(2, 16, 8, seed=i)),
        torch.from_numpy(normal(2, 16, 8, seed=i + 1)),
    )
