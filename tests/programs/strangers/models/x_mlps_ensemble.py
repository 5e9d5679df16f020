"""An ensemble of networks in one: parameters side by side, the module called functionally under `vmap`."""

import torch
import torch.nn.functional as F
from programs.common import normal, seeded
from torch import is_tensor, nn, tensor
from torch.func import functional_call, vmap
from torch.nn import Module, ParameterList


def exists(v):
    return v is not None


class Ensemble(Module):
    def __init__(self, net, ensemble_size, init_std_dev=2e-2):
        super().__init__()
        self.net = net
        self.ensemble_size = ensemble_size
        params = dict(net.named_parameters())
        device = next(iter(params.values())).device
        ensemble_params = {
            name: (torch.randn((ensemble_size, *param.shape), device=device) * init_std_dev).requires_grad_()
            for name, param in params.items()
        }
        self.param_names = list(ensemble_params.keys())
        self.param_values = ParameterList(list(ensemble_params.values()))

        def _forward(params, args, kwargs):
            return functional_call(net, params, args, kwargs)

        self._forward = _forward
        self.ensemble_forward = vmap(_forward, in_dims=(0, None, None))
        self.each_batch_sample_forward = vmap(_forward, in_dims=(0, 0, 0))

    @property
    def ensemble_params(self):
        return dict(zip(self.param_names, self.param_values))

    def parameters(self):
        return iter(self.ensemble_params.values())

    @property
    def device(self):
        return next(self.parameters()).device

    def pick_params(self, indices=None):
        params = self.ensemble_params
        if not exists(indices):
            return params
        if isinstance(indices, list):
            indices = tensor(indices, device=self.device)
        if is_tensor(indices):
            assert (indices < self.ensemble_size).all()
        elif isinstance(indices, int):
            assert 0 <= indices < self.ensemble_size
        return {key: param[indices] for key, param in params.items()}

    def forward(self, *args, ids=None, each_batch_sample=False, **kwargs):
        params = self.pick_params(ids)
        fn = self.ensemble_forward if not each_batch_sample else self.each_batch_sample_forward
        return fn(dict(params), args, kwargs)


def steps():
    net = nn.Sequential(nn.Linear(3, 8), nn.SiLU(), nn.Linear(8, 1))
    ensemble = Ensemble(net, 4)
    seeded(ensemble)
    optimizer = torch.optim.AdamW(ensemble.parameters(), lr=1e-3)

    def train(x, y):
        optimizer.zero_grad()
        every = ensemble(x)
        some = ensemble(x, ids=[0, 2, 3])
        loss = F.mse_loss(every, y.expand_as(every)) + F.mse_loss(some, y.expand_as(some))
        loss.backward()
        optimizer.step()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(6, 3, seed=i)),
        torch.from_numpy(normal(6, 1, seed=i + 1)),
    )
