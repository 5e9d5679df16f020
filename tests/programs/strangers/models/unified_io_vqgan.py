"""A quantised autoencoder of transformer layers: activations by their names, codes looked up, straight-through."""

import functools

import torch
from programs.common import normal, seeded
from torch import nn
from torch.nn import functional as F


def _convert_to_activation_function(fn_or_string):
    if fn_or_string == "linear":
        return lambda x: x
    elif isinstance(fn_or_string, str):
        return getattr(F, fn_or_string)
    elif callable(fn_or_string):
        return fn_or_string
    raise ValueError("don't know how to convert %s to an activation function" % (fn_or_string,))


class MlpBlock(nn.Module):
    def __init__(self, emb_dim, mlp_dim, act_fn="relu", dropout_rate=0.0):
        super().__init__()
        self.act_fn = act_fn
        self.fc1 = nn.Linear(emb_dim, mlp_dim, bias=True)
        self.dropout = nn.Dropout(dropout_rate)
        self.fc2 = nn.Linear(mlp_dim, emb_dim, bias=True)
        nn.init.xavier_uniform_(self.fc1.weight)
        nn.init.normal_(self.fc1.bias, std=1e-6)

    def forward(self, inputs):
        x = self.fc1(inputs)
        x = _convert_to_activation_function(self.act_fn)(x)
        x = self.dropout(x)
        return self.dropout(self.fc2(x))


class DropPath(nn.Module):
    def __init__(self, drop_prob: float = 0.0):
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x):
        if self.drop_prob == 0.0 or not self.training:
            return x
        keep_prob = 1 - self.drop_prob
        shape = (x.shape[0],) + (1,) * (x.ndim - 1)
        return x * x.new_empty(shape).bernoulli_(keep_prob) / keep_prob


class TransformerLayer(nn.Module):
    def __init__(self, emb_dim, mlp_dim, num_heads, act_fn):
        super().__init__()
        self.ln_1 = nn.LayerNorm(emb_dim, eps=1e-6)
        self.attn = nn.MultiheadAttention(emb_dim, num_heads, batch_first=True)
        self.droppath = DropPath(0.0)
        self.ln_2 = nn.LayerNorm(emb_dim, eps=1e-6)
        self.mlp = MlpBlock(emb_dim, mlp_dim, act_fn, 0.0)

    def forward(self, inputs):
        x = self.ln_1(inputs)
        x, _ = self.attn(x, x, x, need_weights=False)
        x = self.droppath(x) + inputs
        y = self.mlp(self.ln_2(x))
        return x + self.droppath(y)


class VQ(nn.Module):
    def __init__(self, n_e, e_dim, beta=0.25, l2_norm=True):
        super().__init__()
        self.n_e, self.e_dim, self.beta, self.l2_norm = n_e, e_dim, beta, l2_norm
        self.embedding = nn.Parameter(torch.randn(n_e, e_dim))

    @functools.cached_property
    def norm(self):
        return functools.partial(F.normalize, dim=-1) if self.l2_norm else lambda z: z

    def forward(self, z):
        z_flat = self.norm(z.reshape(-1, self.e_dim))
        codes = self.norm(self.embedding)
        d = (
            z_flat.square().sum(1, keepdim=True)
            + codes.square().sum(1)
            - 2 * torch.einsum("bd,nd->bn", z_flat, codes)
        )
        indices = torch.argmin(d, dim=1)
        z_q = codes[indices].view(z.shape)
        z = z_flat.view(z.shape)
        loss = ((z_q.detach() - z) ** 2).mean() * self.beta + ((z_q - z.detach()) ** 2).mean()
        return z + (z_q - z).detach(), loss, {"indices": indices}


class VQGAN(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleDict({f"layer_{i}": TransformerLayer(8, 16, 2, "relu") for i in range(2)})
        self.quantize = VQ(12, 8)
        self.decoder = nn.ModuleDict({f"layer_{i}": TransformerLayer(8, 16, 2, "tanh") for i in range(1)})

    def forward(self, x):
        for i in range(len(self.encoder)):
            x = self.encoder[f"layer_{i}"](x)
        x, loss, info = self.quantize(x)
        for _, layer in self.decoder.items():
            x = layer(x)
        return x, loss, info


def steps():
    model = seeded(VQGAN())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.5, 0.9))

    def train(x):
        out, vq_loss, info = model(x)
        loss = F.l1_loss(out, x) + vq_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, info["indices"].sum()

    return train, lambda i: (torch.from_numpy(normal(2, 6, 8, seed=i)),)
