"""Packages that build on PyTorch: the first example for a CPU of each one's README, in small sizes.

What they draw at random is made the same: weights by the runner, data by `numbers`.
"""

from typing import Any

import torch

from libraries.case import Case, Cases, by, forward, numbers, small, training, whole_numbers, with_torchvision

with_torchvision()
CASES = Cases()
case = CASES.add


@case
def torch_ema() -> Case:
    from torch_ema import ExponentialMovingAverage

    model, x = small(), numbers(4, 6)
    step = training(model, lambda: model(x).square().mean(), rate=0.1).step

    def values() -> dict[str, Any]:
        average = ExponentialMovingAverage(model.parameters(), decay=0.9)
        for _ in range(3):
            assert step is not None
            step()
            average.update()
        with average.average_parameters():
            return {"averaged": model(x)}

    return Case(model, values=values)


@case
def lion_pytorch() -> Case:
    from lion_pytorch import Lion

    return by(lambda parameters: Lion(parameters, lr=1e-3, weight_decay=1e-2))


@case
def pytorch_ranger() -> Case:
    from pytorch_ranger import Ranger

    return by(lambda parameters: Ranger(parameters, lr=1e-2))


@case
def torch_optimizer() -> Case:
    import torch_optimizer

    return by(lambda parameters: torch_optimizer.DiffGrad(parameters, lr=0.001))


@case
def pytorch_warmup() -> Case:
    import pytorch_warmup

    model = small()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    warmup = pytorch_warmup.UntunedLinearWarmup(optimizer)

    def values() -> dict[str, Any]:
        rates = []
        for _ in range(6):
            optimizer.zero_grad()
            model(numbers(4, 6)).square().mean().backward()
            optimizer.step()
            with warmup.dampening():
                schedule.step()
            rates.append(optimizer.param_groups[0]["lr"])
        return {"rates": torch.tensor(rates)}

    return Case(model, values=values)


@case
def local_attention() -> Case:
    from local_attention import LocalAttention

    q, k, v = (numbers(2, 4, 64, 8, seed=seed) for seed in range(3))
    attention = LocalAttention(dim=8, window_size=16, causal=True, look_backward=1, dropout=0.0)
    return Case(attention, values=lambda: {"output": attention(q, k, v, mask=torch.ones(2, 64).bool())})


@case
def rotary_embedding_torch() -> Case:
    from rotary_embedding_torch import RotaryEmbedding

    rotary = RotaryEmbedding(dim=8)
    return Case(rotary, values=lambda: {"rotated": rotary.rotate_queries_or_keys(numbers(1, 2, 16, 16))})


@case
def vit_pytorch() -> Case:
    from vit_pytorch import ViT

    sizes = {"image_size": 32, "patch_size": 8, "num_classes": 5, "dim": 32, "depth": 2, "heads": 2}
    return forward(ViT(**sizes, mlp_dim=32, dropout=0.1, emb_dropout=0.1), numbers(1, 3, 32, 32))


@case
def performer_pytorch() -> Case:
    from performer_pytorch import PerformerLM

    sizes = {"num_tokens": 50, "max_seq_len": 32, "dim": 32, "depth": 1, "heads": 2, "dim_head": 16}
    return forward(PerformerLM(**sizes, causal=False), whole_numbers(50, 1, 32))


@case
def info_nce_pytorch() -> Case:
    from info_nce import InfoNCE

    return Case(values=lambda: {"loss": InfoNCE()(numbers(8, 16), numbers(8, 16, seed=1))})


@case
def pytorch_metric_learning() -> Case:
    from pytorch_metric_learning import losses

    model, x, labels = small(), numbers(8, 6), whole_numbers(3, 8)
    loss = losses.TripletMarginLoss()
    return training(model, lambda: loss(model(x), labels), rate=0.1)


@case
def pytorch_msssim() -> Case:
    from pytorch_msssim import SSIM, ssim

    x, y = numbers(2, 3, 32, 32).sigmoid(), numbers(2, 3, 32, 32, seed=1).sigmoid()
    layer = SSIM(data_range=1, size_average=True, channel=3)
    return Case(
        values=lambda: {"ssim": ssim(x, y, data_range=1, size_average=False), "loss": 1 - layer(x, y)}
    )


@case
def coral_pytorch() -> Case:
    from coral_pytorch.dataset import levels_from_labelbatch
    from coral_pytorch.layers import CoralLayer
    from coral_pytorch.losses import coral_loss

    model, x, labels = CoralLayer(size_in=6, num_classes=5), numbers(8, 6), whole_numbers(5, 8)
    return training(model, lambda: coral_loss(model(x), levels_from_labelbatch(labels, num_classes=5)))


@case
def efficientnet_pytorch() -> Case:
    from efficientnet_pytorch import EfficientNet

    return forward(EfficientNet.from_name("efficientnet-b0", num_classes=4), numbers(1, 3, 32, 32))


@case
def torchsummary() -> Case:
    from torchsummary import summary

    def values() -> dict[str, Any]:
        model = small()
        summary(model, (6,), device="cpu")
        return {"parameters": sum(p.numel() for p in model.parameters())}

    return Case(values=values)


@case
def torchinfo() -> Case:
    from torchinfo import summary

    def values() -> dict[str, Any]:
        told = summary(torch.nn.Conv2d(3, 8, 3), input_size=(2, 3, 16, 16), verbose=0)
        return {"told": torch.tensor([told.total_params, told.total_mult_adds, told.total_output_bytes])}

    return Case(values=values)


@case
def thop() -> Case:
    from thop import profile

    def values() -> dict[str, Any]:
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ZeroPad2d(1), torch.nn.BatchNorm2d(8))
        return {"counts": torch.tensor(profile(model, inputs=(numbers(1, 3, 16, 16),), verbose=False))}

    return Case(values=values)


@case
def pytorch_tabnet() -> Case:
    from pytorch_tabnet.tab_network import TabNet

    group = torch.eye(6)
    return Case(
        model := TabNet(6, 2, n_d=4, n_a=4, group_attention_matrix=group),
        values=lambda: {"output": model.eval()(numbers(8, 6))[0]},
    )


@case
def torch_lr_finder() -> Case:
    from torch_lr_finder import LRFinder

    model = small()
    data = torch.utils.data.TensorDataset(numbers(16, 6), whole_numbers(3, 16))
    loader = torch.utils.data.DataLoader(data, batch_size=4)

    def values() -> dict[str, Any]:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        finder = LRFinder(model, optimizer, torch.nn.CrossEntropyLoss(), device="cpu")
        finder.range_test(loader, end_lr=1, num_iter=8)
        return {"losses": torch.tensor(finder.history["loss"]), "rates": torch.tensor(finder.history["lr"])}

    return Case(model, values=values)


@case
def torchtyping() -> Case:
    from torchtyping import TensorType

    def product(x: TensorType["batch", "x"], y: TensorType["batch", "x"]) -> TensorType["batch"]:  # noqa: F821
        return (x * y).sum(-1)

    return Case(values=lambda: {"product": product(numbers(3, 4), numbers(3, 4, seed=1))})


@case
def facenet_pytorch() -> Case:
    from facenet_pytorch import InceptionResnetV1

    return forward(InceptionResnetV1(pretrained=None), numbers(1, 3, 96, 96))


@case
def fvcore() -> Case:
    from fvcore.nn import sigmoid_focal_loss

    wanted = whole_numbers(2, 8).float()
    return Case(values=lambda: {"loss": sigmoid_focal_loss(numbers(8), wanted, reduction="mean")})


@case
def tensordict() -> Case:
    from tensordict import TensorDict

    def values() -> dict[str, Any]:
        data = TensorDict({"obs": numbers(4, 3), "action": numbers(4, 2)}, batch_size=[4])
        return {"sum": data.reshape(2, 2)["obs"].sum(), "stacked": torch.stack([data, data], 0)["action"]}

    return Case(values=values)
