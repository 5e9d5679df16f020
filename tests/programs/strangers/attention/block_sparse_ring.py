"""Sparse attention by fixed patterns: indices in a cache behind a lock, blocks by the numbers in these tensors."""

import math
import threading
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import normal, seeded


@dataclass
class SparsePatternConfig:
    pattern_type: str = "dilated_sparse"
    sparsity_ratio: float = 0.1
    block_size: int = 4
    local_window_size: int = 8
    global_tokens: int = 4


class BlockSparseRingDilatedAttention(nn.Module):
    def __init__(self, segment_lengths, dilation_rates, sparse_config=None, **kwargs):
        super().__init__()
        self.segment_lengths, self.dilation_rates = segment_lengths, dilation_rates
        if isinstance(sparse_config, dict):
            self.sparse_config = SparsePatternConfig(**sparse_config)
        elif sparse_config is not None:
            self.sparse_config = sparse_config
        else:
            self.sparse_config = SparsePatternConfig()
        self.block_size = self.sparse_config.block_size
        self.pattern_cache: dict = {}
        self._cache_lock = threading.Lock()

    def forward(self, q, k, v, is_causal=False):
        batch, seq_len, num_heads, head_dim = q.shape
        if seq_len % self.block_size != 0:
            raise ValueError(f"Sequence length {seq_len} must be divisible by block size {self.block_size}")
        num_blocks = seq_len // self.block_size
        block_indices = self._get_sparse_block_indices(num_blocks, num_heads, q.device)
        if hasattr(self, "_allocate_tensor") and self._memory_pool is not None:
            output = self._allocate_tensor(q.shape, q.dtype, q.device, strategy="auto", zero_init=True)
        else:
            output = torch.zeros_like(q)
        self._compute_sparse_attention(q, k, v, output, block_indices, is_causal)
        return output

    def _get_sparse_block_indices(self, num_blocks, num_heads, device):
        _ = num_heads
        cache_key = (
            num_blocks,
            self.sparse_config.pattern_type,
            self.sparse_config.sparsity_ratio,
            self.sparse_config.block_size,
        )
        with self._cache_lock:
            if cache_key in self.pattern_cache:
                row_idx, col_idx = self.pattern_cache[cache_key]
                return row_idx.to(device), col_idx.to(device)
        row_idx, col_idx = self._create_dilated_sparse_indices(num_blocks)
        row_idx = torch.tensor(row_idx, dtype=torch.long)
        col_idx = torch.tensor(col_idx, dtype=torch.long)
        with self._cache_lock:
            self.pattern_cache[cache_key] = (row_idx.cpu(), col_idx.cpu())
        return row_idx.to(device), col_idx.to(device)

    def _create_dilated_sparse_indices(self, num_blocks):
        row_indices, col_indices = [], []
        for i in range(num_blocks):
            row_indices.append(i)
            col_indices.append(i)
            for rate in self.dilation_rates[:3]:
                for direction in [-1, 1]:
                    j = i + direction * rate
                    if 0 <= j < num_blocks:
                        row_indices.append(i)
                        col_indices.append(j)
        seen = set()
        unique_pairs = []
        for r, c in zip(row_indices, col_indices, strict=False):
            if (r, c) not in seen:
                seen.add((r, c))
                unique_pairs.append((r, c))
        row_indices, col_indices = zip(*unique_pairs, strict=False)
        return list(row_indices), list(col_indices)

    def _compute_sparse_attention(self, q, k, v, output, block_indices, is_causal):
        batch, seq_len, num_heads, head_dim = q.shape
        row_idx, col_idx = block_indices
        num_active_blocks = len(row_idx)
        if num_active_blocks == 0:
            return
        q_blocks = q.view(batch, -1, self.block_size, num_heads, head_dim)
        k_blocks = k.view(batch, -1, self.block_size, num_heads, head_dim)
        v_blocks = v.view(batch, -1, self.block_size, num_heads, head_dim)
        output_blocks = output.view(batch, -1, self.block_size, num_heads, head_dim)
        scale = 1.0 / math.sqrt(head_dim)
        for idx in range(num_active_blocks):
            q_idx, k_idx = row_idx[idx], col_idx[idx]
            q_block, k_block, v_block = q_blocks[:, q_idx], k_blocks[:, k_idx], v_blocks[:, k_idx]
            q_block, k_block = q_block.transpose(1, 2), k_block.transpose(1, 2)
            v_block = v_block.transpose(1, 2)
            scores = torch.matmul(q_block, k_block.transpose(-2, -1)) * scale
            if is_causal:
                if q_idx > k_idx:
                    pass
                elif q_idx == k_idx:
                    if not hasattr(self, "_causal_mask_cache"):
                        self._causal_mask_cache = {}
                    cache_key = (self.block_size, scores.device)
                    if cache_key not in self._causal_mask_cache:
                        self._causal_mask_cache[cache_key] = torch.triu(
                            torch.ones(self.block_size, self.block_size, device=scores.device), diagonal=1
                        ).bool()
                    causal_mask = self._causal_mask_cache[cache_key]
                    scores.masked_fill_(causal_mask, float("-inf"))
                else:
                    continue
            attn_weights = torch.softmax(scores, dim=-1)
            attn_output = torch.matmul(attn_weights, v_block).transpose(1, 2)
            output_blocks[:, q_idx] += attn_output


class BlockSparseRingMultihead(nn.Module):
    def __init__(self, embed_dim, num_heads, segment_lengths, dilation_rates, dropout=0.0, bias=True):
        super().__init__()
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        self.batch_first = True
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.dropout_layer = nn.Dropout(dropout) if dropout > 0.0 else nn.Identity()
        self.sparse_attention = BlockSparseRingDilatedAttention(segment_lengths, dilation_rates)
        self._always_return_tuple = False

    def forward(self, query, key, value, key_padding_mask=None, attn_mask=None, is_causal=False):
        if not self.batch_first:
            query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
        batch_size, seq_len, _ = query.shape
        q, k, v = self.q_proj(query), self.k_proj(key), self.v_proj(value)
        q = q.view(batch_size, seq_len, self.num_heads, self.head_dim)
        k = k.view(batch_size, seq_len, self.num_heads, self.head_dim)
        v = v.view(batch_size, seq_len, self.num_heads, self.head_dim)
        if key_padding_mask is not None:
            mask = key_padding_mask.unsqueeze(2).unsqueeze(3)
            k = k.masked_fill(mask, 0.0)
            v = v.masked_fill(mask, 0.0)
        if attn_mask is not None:
            import warnings

            warnings.warn("attn_mask is not fully supported", stacklevel=2)
        attn_output = self.sparse_attention(q, k, v, is_causal=is_causal)
        attn_output = attn_output.view(batch_size, seq_len, self.embed_dim)
        output = self.dropout_layer(self.out_proj(attn_output))
        if self._always_return_tuple:
            return output, None
        return output


def steps():
    model = seeded(BlockSparseRingMultihead(8, 2, [8, 16], [1, 2]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def train(x, y, padding):
        optimizer.zero_grad()
        output = model(x, x, x, key_padding_mask=padding, is_causal=True)
        loss = F.mse_loss(output, y)
        loss.backward()
        optimizer.step()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(2, 12, 8, seed=i)),
        torch.from_numpy(normal(2, 12, 8, seed=i + 1)),
        torch.from_numpy(normal(2, 12, seed=i) > 1.0),
    )
