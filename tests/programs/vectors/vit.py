"""A vision transformer: patches by a convolution, a class token, drop of paths switched off."""

import torch
from programs.common import integers, normal, seeded
from torch import nn


class PatchEmbed(nn.Module):
    def __init__(self, size, patch, channels, width):
        super().__init__()
        self.proj = nn.Conv2d(channels, width, kernel_size=patch, stride=patch)
        self.num_patches = (size // patch) ** 2

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class EncoderBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(0.0), nn.Linear(2 * width, width)
        )
        self.gamma = nn.Parameter(1e-1 * torch.ones(width))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.gamma * self.attn(y, y, y, need_weights=False)[0]
        return x + self.gamma * self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch_embed = PatchEmbed(8, 4, 3, 16)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, 16))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + self.patch_embed.num_patches, 16))
        self.blocks = nn.Sequential(*[EncoderBlock(16, 2) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 5)

    def forward(self, x):
        x = self.patch_embed(x)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


def steps():
    model = seeded(ViT())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)

    def train_one(images, targets):
        outputs = model(images)
        loss = criterion(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        return loss, outputs.topk(2, 1, True, True)[0].sum()

    return train_one, lambda i: (
        torch.from_numpy(normal(4, 3, 8, 8, seed=i)),
        torch.from_numpy(integers(5, 4, seed=i)),
    )
