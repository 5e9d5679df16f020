"""Packages that build on PyTorch and on much besides: the first example for a CPU of each one's README, in
small sizes, as `packages` has those of others.
"""

import os
from typing import Any

import numpy as np
import torch

from libraries.case import Case, Cases, by, forward, numbers, small, training, whole_numbers, with_torchvision

with_torchvision()
CASES = Cases()
case = CASES.add


def autoencoder() -> Any:
    """The first model of PyTorch Lightning's README."""
    import pytorch_lightning as pl

    class LitAutoEncoder(pl.LightningModule):
        rate = 1e-3

        def __init__(self) -> None:
            super().__init__()
            self.encoder = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
            self.decoder = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 6))

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            (x,) = batch
            loss = torch.nn.functional.mse_loss(self.decoder(self.encoder(x)), x)
            self.log("train_loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=self.rate)

    return LitAutoEncoder()


def fitted(model: Any, **options: Any) -> Any:
    """A trainer that has trained a model for two epochs."""
    import pytorch_lightning as pl

    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(numbers(16, 6)), batch_size=4)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = pl.Trainer(max_epochs=2, accelerator="cpu", enable_model_summary=False, **quiet, **options)
    trainer.fit(model, loader)
    return trainer


@case
def adabelief_pytorch() -> Case:
    from adabelief_pytorch import AdaBelief

    return by(
        lambda parameters: AdaBelief(
            parameters,
            lr=1e-3,
            eps=1e-8,
            betas=(0.9, 0.999),
            weight_decouple=True,
            rectify=False,
            print_change_log=False,
        )
    )


@case
def botorch() -> Case:
    from botorch.acquisition import UpperConfidenceBound
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    def values() -> dict[str, Any]:
        x = numbers(10, 2).double().sigmoid()
        y = 1 - (x - 0.5).norm(dim=-1, keepdim=True)
        model = SingleTaskGP(train_X=x, train_Y=y)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        bounds = torch.stack([torch.zeros(2), torch.ones(2)]).double()
        starts = numbers(5, 1, 2, seed=1).double().sigmoid()
        upper = UpperConfidenceBound(model, beta=0.1)
        candidate, value = optimize_acqf(
            upper, bounds=bounds, q=1, num_restarts=5, batch_initial_conditions=starts
        )
        return {"candidate": candidate, "value": value, "lengths": model.covar_module.lengthscale}

    return Case(values=values)


@case
def deepxde() -> Case:
    os.environ["DDE_BACKEND"] = "pytorch"
    import deepxde as dde

    def equation(x: Any, y: Any) -> Any:
        second = dde.grad.hessian(y, x)
        return -second - np.pi**2 * torch.sin(np.pi * x)

    line = dde.geometry.Interval(-1, 0.5)
    edge = dde.icbc.DirichletBC(line, lambda x: 0.0 * x, lambda x, on_boundary: on_boundary)
    data = dde.data.PDE(line, equation, edge, 16, 2, train_distribution="uniform", num_test=20)
    network = dde.nn.FNN([1, 12, 12, 1], "tanh", "Glorot uniform")

    def values() -> dict[str, Any]:
        model = dde.Model(data, network)
        model.compile("adam", lr=0.001)
        history, _ = model.train(iterations=20, display_every=10, verbose=0)
        return {"losses": np.array(history.loss_train), "at": model.predict(np.linspace(-1, 0.5, 5)[:, None])}

    return Case(network, values=values)


@case
def fairscale() -> Case:
    from fairscale.optim import AdaScale

    model, x = small(), numbers(4, 6)
    optimizer = AdaScale(
        torch.optim.SGD(model.parameters(), lr=0.1), world_size=1, num_gradients_to_accumulate=2
    )

    def values() -> dict[str, Any]:
        gains = []
        for _ in range(5):
            for part in x.chunk(2):
                model(part).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            gains.append(optimizer.gain())
        return {"gains": np.array(gains), "output": model(x)}

    return Case(model, values=values)


@case
def lightning_utilities() -> Case:
    from lightning_utilities.core.apply_func import apply_to_collection

    given = {"a": numbers(3), "b": [numbers(2, seed=1), "text"]}

    def values() -> dict[str, Any]:
        told = apply_to_collection(given, dtype=torch.Tensor, function=lambda t: t * 2)
        return {"a": told["a"], "b": told["b"][0]}

    return Case(values=values)


@case
def monai() -> Case:
    from monai.losses import DiceLoss
    from monai.networks.nets import UNet

    model = UNet(
        spatial_dims=2, in_channels=1, out_channels=2, channels=(4, 8), strides=(2,), num_res_units=1
    )
    x, labels = numbers(2, 1, 16, 16), whole_numbers(2, 2, 1, 16, 16)
    loss = DiceLoss(to_onehot_y=True, softmax=True)
    return training(model, lambda: loss(model(x), labels))


@case
def neuralforecast() -> Case:
    from neuralforecast import NeuralForecast
    from neuralforecast.models import NBEATS
    from neuralforecast.utils import AirPassengersDF

    # Without windows to be drawn.
    sizes = {"stack_types": ["identity"], "mlp_units": [[16, 16]], "windows_batch_size": None}
    quiet = {
        "logger": False,
        "enable_progress_bar": False,
        "enable_checkpointing": False,
        "accelerator": "cpu",
    }
    model = NBEATS(input_size=12, h=6, max_steps=10, n_blocks=[1], scaler_type="standard", **sizes, **quiet)

    def values() -> dict[str, Any]:
        forecast = NeuralForecast(models=[model], freq="ME")
        forecast.fit(df=AirPassengersDF, use_init_models=False)
        return {"forecast": forecast.predict()["NBEATS"].to_numpy()}

    return Case(model, values=values)


@case
def open_clip_torch() -> Case:
    from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

    vision = CLIPVisionCfg(layers=2, width=32, head_width=16, patch_size=8, image_size=32)
    text = CLIPTextCfg(context_length=12, vocab_size=50, width=32, heads=2, layers=2)
    model = CLIP(embed_dim=16, vision_cfg=vision, text_cfg=text)
    image, words = numbers(2, 3, 32, 32), whole_numbers(50, 2, 12)

    def values() -> dict[str, Any]:
        with torch.no_grad():
            seen, read = model.encode_image(image), model.encode_text(words)
            seen, read = seen / seen.norm(dim=-1, keepdim=True), read / read.norm(dim=-1, keepdim=True)
            return {"probabilities": (100.0 * seen @ read.T).softmax(dim=-1)}

    return Case(model, values=values)


@case
def optuna_integration() -> Case:
    import optuna
    from optuna_integration import PyTorchLightningPruningCallback

    model, states = autoencoder(), []

    def objective(trial: Any) -> float:
        model.load_state_dict(states[0])
        model.rate = trial.suggest_float("rate", 1e-3, 1e-1, log=True)
        pruning = PyTorchLightningPruningCallback(trial, monitor="train_loss")
        return float(fitted(model, callbacks=[pruning]).callback_metrics["train_loss"])

    def values() -> dict[str, Any]:
        states.append({key: value.clone() for key, value in model.state_dict().items()})
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
        study.optimize(objective, n_trials=3)
        return {"values": torch.tensor([trial.value for trial in study.trials])}

    return Case(model, values=values)


@case
def pytorch_forecasting() -> Case:
    import pandas as pd
    from pytorch_forecasting import TemporalFusionTransformer, TimeSeriesDataSet
    from pytorch_forecasting.metrics import QuantileLoss

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "time": np.tile(np.arange(30), 2),
            "group": np.repeat(["a", "b"], 30),
            "value": rng.standard_normal(60),
        }
    )
    data = TimeSeriesDataSet(
        frame,
        time_idx="time",
        target="value",
        group_ids=["group"],
        max_encoder_length=8,
        max_prediction_length=3,
        time_varying_unknown_reals=["value"],
        static_categoricals=["group"],
    )
    x, y = next(iter(data.to_dataloader(train=False, batch_size=4)))
    sizes = {"hidden_size": 8, "attention_head_size": 1, "dropout": 0.0, "hidden_continuous_size": 4}
    loss = QuantileLoss()
    model = TemporalFusionTransformer.from_dataset(data, **sizes, output_size=7, loss=loss)
    return training(model, lambda: loss(model(x).prediction, y))


@case
def pytorch_lightning() -> Case:
    model = autoencoder()

    def values() -> dict[str, Any]:
        trainer = fitted(model)
        return {"encoded": model.encoder(numbers(2, 6)), "loss": trainer.callback_metrics["train_loss"]}

    return Case(model, values=values)


@case
def segmentation_models_pytorch() -> Case:
    import segmentation_models_pytorch as smp

    model = smp.Unet(encoder_name="resnet18", encoder_weights=None, in_channels=1, classes=3)
    return forward(model, numbers(1, 1, 64, 64))


@case
def torch_fidelity() -> Case:
    from torch_fidelity.metric_fid import fid_features_to_statistics, fid_statistics_to_metric
    from torch_fidelity.metric_kid import kid_features_to_metric

    one, other = numbers(60, 8), numbers(60, 8, seed=1) + 0.5

    def values() -> dict[str, Any]:
        told = fid_statistics_to_metric(
            fid_features_to_statistics(one), fid_features_to_statistics(other), False
        )
        kid = kid_features_to_metric(one, other, kid_subsets=5, kid_subset_size=20, verbose=False, rng_seed=1)
        return {"told": torch.tensor([*told.values(), *kid.values()])}

    return Case(values=values)


@case
def torchviz() -> Case:
    from torchviz import make_dot

    def values() -> dict[str, Any]:
        model = small()
        dot = make_dot(model(numbers(4, 6)).mean(), params=dict(model.named_parameters()))
        lines = [line for line in dot.source.splitlines() if "->" in line or "[label=" in line]
        labels = sorted(line.partition("[label=")[2] for line in lines if "[label=" in line)
        return {"lines": len(lines), "labels": torch.tensor([*map(ord, "".join(labels))])}

    return Case(values=values)


@case
def trl() -> Case:
    import tempfile

    from datasets import Dataset
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
    from trl import SFTConfig, SFTTrainer

    words = "<pad> <eos> the cat dog sat ran on a mat".split()
    spelled = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<pad>")
    )
    spelled.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=spelled, pad_token="<pad>", eos_token="<eos>")
    sizes = {"vocab_size": 10, "n_positions": 16, "n_embd": 16, "n_layer": 1, "n_head": 2}
    model = GPT2LMHeadModel(GPT2Config(**sizes, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))

    def values() -> dict[str, Any]:
        data = Dataset.from_dict({"text": ["the cat sat on a mat", "the dog ran"] * 4})
        with tempfile.TemporaryDirectory() as folder:
            asked = SFTConfig(
                output_dir=folder,
                max_steps=3,
                per_device_train_batch_size=2,
                report_to=[],
                use_cpu=True,
                save_strategy="no",
                bf16=False,
                gradient_checkpointing=False,
                train_sampling_strategy="sequential",
            )
            trainer = SFTTrainer(model=model, args=asked, train_dataset=data, processing_class=tokenizer)
            loss = trainer.train().training_loss
        return {"loss": loss, "logits": model(whole_numbers(10, 1, 5)).logits}

    return Case(model, values=values)


@case
def vector_quantize_pytorch() -> Case:
    from vector_quantize_pytorch import VectorQuantize

    quantize = VectorQuantize(dim=8, codebook_size=16, decay=0.8, commitment_weight=1.0)

    def values() -> dict[str, Any]:
        quantized, indices, loss = quantize(numbers(1, 32, 8))
        return {"quantized": quantized, "indices": indices, "loss": loss}

    return Case(quantize, values=values)


@case
def ultralytics_thop() -> Case:
    from thop import profile

    def values() -> dict[str, Any]:
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.BatchNorm2d(8))
        return {"counts": torch.tensor(profile(model, inputs=(numbers(1, 3, 16, 16),), verbose=False))}

    return Case(values=values)


@case
def pretrainedmodels() -> Case:
    import pretrainedmodels

    return forward(
        pretrainedmodels.__dict__["resnet18"](num_classes=1000, pretrained=None), numbers(1, 3, 64, 64)
    )
