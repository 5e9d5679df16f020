"""Coordinates denoised: a vector for each atom of neighbours, a loss where a mask is true, batches accumulated."""

import torch
import torch.nn.functional as F
from programs.common import integers, normal, seeded
from torch import nn

DRAWS = True
GRADIENT_ACCUMULATE_EVERY, MAX_SEQ_LEN = 3, 8


def cycle(loader, len_thres=MAX_SEQ_LEN):
    while True:
        for data in loader:
            if data.seqs.shape[1] > len_thres:
                continue
            yield data


class Batch:
    def __init__(self, i):
        length = 5 + i % 2
        self.seqs = F.one_hot(torch.from_numpy(integers(7, 1, length, seed=i)), 7)
        self.crds = torch.from_numpy(normal(1, length * 5, 3, seed=i))
        self.msks = torch.from_numpy(integers(4, 1, length, seed=i) > 0)


class Equiformer(nn.Module):
    def __init__(self, num_tokens=7, dim=8, num_neighbors=4):
        super().__init__()
        self.token_emb, self.num_neighbors = nn.Embedding(num_tokens, dim), num_neighbors
        self.radial = nn.Sequential(nn.Linear(1 + 2 * dim, dim), nn.SiLU(), nn.Linear(dim, 1))
        self.to_scalar = nn.Linear(dim, dim)

    def forward(self, seq, coors, mask=None):
        feats = self.token_emb(seq)
        rel_pos = coors[:, :, None] - coors[:, None]
        rel_dist = rel_pos.norm(dim=-1)
        n = seq.shape[1]
        exclude_self_mask = torch.eye(n, dtype=torch.bool)
        modified_rel_dist = rel_dist.masked_fill(exclude_self_mask[None], 1e5)
        if mask is not None:
            modified_rel_dist = modified_rel_dist.masked_fill(~mask[:, None, :], 1e5)
        dist_values, nearest_indices = modified_rel_dist.topk(self.num_neighbors, dim=-1, largest=False)
        neighbor_mask = dist_values <= 1e4
        vectors = rel_pos.gather(2, nearest_indices[..., None].expand(-1, -1, -1, 3))
        neighbours = (
            feats[:, None]
            .expand(-1, n, -1, -1)
            .gather(2, nearest_indices[..., None].expand(-1, -1, -1, feats.shape[-1]))
        )
        edges = torch.cat(
            (vectors.norm(dim=-1, keepdim=True), neighbours, feats[:, :, None].expand_as(neighbours)), -1
        )
        weights = self.radial(edges).masked_fill(~neighbor_mask[..., None], 0.0)
        return self.to_scalar(feats), (weights * vectors).mean(2)


def steps():
    transformer = seeded(Equiformer())
    dl = cycle([Batch(i) for i in range(6)])
    optim = torch.optim.Adam([*transformer.token_emb.parameters(), *transformer.radial.parameters()], lr=1e-4)

    def train_step():
        for _ in range(GRADIENT_ACCUMULATE_EVERY):
            batch = next(dl)
            seqs, coords, masks = batch.seqs, batch.crds, batch.msks
            seqs = seqs.argmax(dim=-1)
            coords = coords.type(torch.get_default_dtype())
            masks = masks.bool()
            l = seqs.shape[1]  # noqa: E741
            coords = coords.unflatten(1, (l, 5))
            coords = coords[:, :, 0:3, :]
            coords = coords.flatten(1, 2)
            seq = seqs[..., None].expand(-1, -1, 3).flatten(1)
            masks = masks[..., None].expand(-1, -1, 3).flatten(1)
            noised_coords = coords + torch.randn_like(coords)
            _, type1_out = transformer(seq, noised_coords, mask=masks)
            denoised_coords = noised_coords + type1_out
            loss = F.mse_loss(denoised_coords[masks], coords[masks])
            (loss / GRADIENT_ACCUMULATE_EVERY).backward()
        print("loss:", loss.item())
        optim.step()
        optim.zero_grad()
        return loss

    return train_step, lambda i: ()
