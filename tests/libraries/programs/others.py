"""Libraries that no list names, as a trial by strangers would take them: what each is used for first.

Models of a few thousand numbers at most, trained or asked for values.
"""

from typing import Any

import numpy as np
import torch

from libraries.case import Case, Cases, numbers, small, training, whole_numbers, with_torchvision

with_torchvision()
CASES = Cases()
case = CASES.add


@case
def torchsde() -> Case:
    import torchsde

    class SDE(torch.nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def __init__(self) -> None:
            super().__init__()
            self.drift, self.diffusion = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

        def f(self, t: Any, y: Any) -> Any:
            return self.drift(y)

        def g(self, t: Any, y: Any) -> Any:
            return 0.1 * self.diffusion(y)

    class Path(torchsde.BaseBrownian):
        """A path that is the same for all, in place of a random one."""

        def __call__(self, ta: Any, tb: Any = None, return_U: bool = False, return_A: bool = False) -> Any:
            return numbers(4, 3, seed=int(1000 * float(ta))) * (tb - ta) ** 0.5

        @property
        def dtype(self) -> Any:
            return torch.float32

        @property
        def device(self) -> Any:
            return torch.device("cpu")

        @property
        def shape(self) -> Any:
            return torch.Size((4, 3))

        @property
        def levy_area_approximation(self) -> str:
            return "none"

        def __repr__(self) -> str:
            return "Path"

    sde, start, times = SDE(), numbers(4, 3), torch.linspace(0, 1, 5)
    return training(
        sde, lambda: torchsde.sdeint(sde, start, times, bm=Path(), method="euler", dt=0.25).square().mean()
    )


@case
def torchcde() -> Case:
    import torchcde

    class Field(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 3 * 2)

        def forward(self, t: Any, z: Any) -> Any:
            return self.linear(z).tanh().view(4, 3, 2)

    field, x = Field(), numbers(4, 8, 2)
    path = torchcde.CubicSpline(torchcde.natural_cubic_coeffs(x))

    def loss() -> Any:
        z = torchcde.cdeint(
            X=path, z0=torch.ones(4, 3), func=field, t=path.interval, adjoint=False, method="rk4"
        )
        return z[:, -1].square().mean()

    return training(field, loss, rate=1e-4)


@case
def nflows() -> Case:
    from nflows.distributions.normal import StandardNormal
    from nflows.flows.base import Flow
    from nflows.transforms.autoregressive import MaskedAffineAutoregressiveTransform
    from nflows.transforms.base import CompositeTransform
    from nflows.transforms.permutations import ReversePermutation

    parts: list[Any] = []
    for _ in range(2):
        parts += [
            ReversePermutation(features=2),
            MaskedAffineAutoregressiveTransform(features=2, hidden_features=4),
        ]
    flow = Flow(CompositeTransform(parts), StandardNormal(shape=[2]))
    x = numbers(16, 2)
    return training(flow, lambda: -flow.log_prob(inputs=x).mean())


@case
def normflows() -> Case:
    import normflows as nf

    flows: list[Any] = []
    for _ in range(3):
        network = nf.nets.MLP([1, 8, 8, 2], init_zeros=False)
        flows += [nf.flows.AffineCouplingBlock(network), nf.flows.Permute(2, mode="swap")]
    model = nf.NormalizingFlow(nf.distributions.base.DiagGaussian(2), flows)
    x = numbers(16, 2)
    return training(model, lambda: model.forward_kld(x))


@case
def e3nn() -> Case:
    from e3nn import o3

    product = o3.FullyConnectedTensorProduct("4x0e + 2x1o", "1x0e + 1x1o", "3x0e + 2x1o")
    x, y = numbers(5, 10), numbers(5, 4, seed=1)
    harmonics = o3.SphericalHarmonics("0e + 1o + 2e", normalize=True)

    def loss() -> Any:
        return product(x, y).square().mean() + harmonics(y[:, :3]).square().mean()

    return training(product, loss)


@case
def geoopt() -> Case:
    import geoopt

    class Embedding(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ball = geoopt.PoincareBall()
            self.points = geoopt.ManifoldParameter(0.1 * numbers(6, 2), manifold=self.ball)

    model = Embedding()
    optimizer = geoopt.optim.RiemannianAdam(model.parameters(), lr=0.01)

    def step() -> Any:
        optimizer.zero_grad()
        loss = model.ball.dist(model.points[:3], model.points[3:]).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Case(model, step)


@case
def entmax() -> Case:
    from entmax import entmax15, sparsemax

    model, x = small(), numbers(4, 6)
    return training(
        model, lambda: entmax15(model(x), dim=-1)[:, 0].mean() + sparsemax(model(x), dim=-1).square().sum()
    )


@case
def higher() -> Case:
    import higher

    model, x, y = small(), numbers(4, 6), numbers(4, 3, seed=1)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)

    def values() -> dict[str, Any]:
        with higher.innerloop_ctx(model, inner) as (functional, differentiable):
            for _ in range(2):
                differentiable.step((functional(x) - y).square().mean())
            (functional(x) - y).square().mean().backward()
        return {name: parameter.grad for name, parameter in model.named_parameters()}

    return Case(model, values=values)


@case
def ignite() -> Case:
    from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
    from ignite.metrics import Accuracy, Loss

    model, loss = small(), torch.nn.CrossEntropyLoss()
    data = torch.utils.data.TensorDataset(numbers(16, 6), whole_numbers(3, 16))

    def values() -> dict[str, Any]:
        loader = torch.utils.data.DataLoader(data, batch_size=4)
        trainer = create_supervised_trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), loss)
        judge = create_supervised_evaluator(model, metrics={"accuracy": Accuracy(), "loss": Loss(loss)})
        seen: list[float] = []
        trainer.add_event_handler(Events.ITERATION_COMPLETED, lambda engine: seen.append(engine.state.output))
        trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda _: judge.run(loader))
        trainer.run(loader, max_epochs=2)
        return {"losses": torch.tensor(seen), **judge.state.metrics}

    return Case(model, values=values)


@case
def zuko() -> Case:
    import zuko

    flow = zuko.flows.NSF(3, 2, transforms=2, hidden_features=(8, 8))
    x, context = numbers(8, 3), numbers(8, 2, seed=1)
    return training(flow, lambda: -flow(context).log_prob(x).mean())


@case
def diffusers() -> Case:
    from diffusers import DDPMScheduler, UNet2DModel

    blocks = {
        "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
        "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
    }
    sizes = {"sample_size": 8, "in_channels": 1, "out_channels": 1, "layers_per_block": 1}
    model = UNet2DModel(
        **sizes, **blocks, block_out_channels=(8, 16), norm_num_groups=4, attention_head_dim=4
    )
    scheduler = DDPMScheduler(num_train_timesteps=50)
    clean, noise, times = numbers(2, 1, 8, 8), numbers(2, 1, 8, 8, seed=1), whole_numbers(50, 2)

    def loss() -> Any:
        noisy = scheduler.add_noise(clean, noise, times)
        return torch.nn.functional.mse_loss(model(noisy, times, return_dict=False)[0], noise)

    return training(model, loss)


@case
def sentence_transformers() -> Case:
    from sentence_transformers import losses, util
    from transformers import BertConfig, BertModel

    sizes = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    bert = BertModel(BertConfig(**sizes, intermediate_size=16, hidden_dropout_prob=0.0)).eval()
    words, others = whole_numbers(40, 4, 6), whole_numbers(40, 4, 6, seed=1)
    del losses

    def loss() -> Any:
        one, other = bert(words).last_hidden_state.mean(1), bert(others).last_hidden_state.mean(1)
        return torch.nn.functional.cross_entropy(20 * util.cos_sim(one, other), torch.arange(4))

    return training(bert, loss)


@case
def fastai() -> Case:
    from fastai.callback import schedule  # gives learners `fit_one_cycle`
    from fastai.callback.progress import ProgressCallback
    from fastai.data.core import DataLoaders
    from fastai.data.load import DataLoader
    from fastai.learner import Learner
    from fastai.metrics import accuracy

    assert schedule
    model = small()
    data = [(x, label) for x, label in zip(numbers(16, 6), whole_numbers(3, 16), strict=True)]

    def values() -> dict[str, Any]:
        loader = DataLoader(data, bs=4)
        learner = Learner(DataLoaders(loader, loader), model, torch.nn.CrossEntropyLoss(), metrics=accuracy)
        learner.remove_cb(ProgressCallback)
        with learner.no_logging():
            learner.fit_one_cycle(2, 0.1)
        return {"losses": torch.stack(learner.recorder.losses), "last": learner.recorder.final_record}

    return Case(model, values=values)


@case
def tsai() -> Case:
    from tsai.models.InceptionTime import InceptionTime

    model = InceptionTime(2, 3, nf=4)
    x, labels = numbers(4, 2, 32), whole_numbers(3, 4)
    return training(model, lambda: torch.nn.functional.cross_entropy(model(x), labels))


@case
def jaxtyping() -> Case:
    from jaxtyping import Float, jaxtyped
    from torch import Tensor

    @jaxtyped(typechecker=None)
    def product(x: Float[Tensor, "rows columns"], y: Float[Tensor, "columns"]) -> Float[Tensor, "rows"]:  # noqa: F722, F821
        return x @ y

    def values() -> dict[str, Any]:
        fits = isinstance(numbers(3, 4), Float[Tensor, "a b"])
        wrong = isinstance(numbers(3, 4), Float[Tensor, "a"])
        return {"product": product(numbers(3, 4), numbers(4)), "fits": np.array([fits, wrong])}

    return Case(values=values)
