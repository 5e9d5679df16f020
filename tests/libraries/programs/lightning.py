"""lightning: a module of its kind, its trainer, and a checkpoint."""

import tempfile
from pathlib import Path
from typing import Any

import lightning
import torch

from libraries.case import Case, numbers, training, whole_numbers


class Classifier(lightning.LightningModule):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, width), torch.nn.ReLU(), torch.nn.Linear(width, 4))

    def training_step(self, batch: Any, number: int = 0) -> torch.Tensor:
        x, labels = batch
        return torch.nn.functional.cross_entropy(self.net(x), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


def module() -> Case:
    model, batch = Classifier(), (numbers(16, 8), whole_numbers(4, 16))
    return training(model, lambda: model.training_step(batch))


def trainer() -> Case:
    model = Classifier()
    x, labels = numbers(32, 8), whole_numbers(4, 32)

    def values() -> dict[str, torch.Tensor]:
        data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, labels), batch_size=8)
        with tempfile.TemporaryDirectory() as folder:
            runner = lightning.Trainer(
                accelerator="cpu",
                max_epochs=5,
                logger=False,
                enable_progress_bar=False,
                enable_model_summary=False,
                enable_checkpointing=False,
                default_root_dir=folder,
            )
            runner.fit(model, data)
            file = Path(folder) / "kept.ckpt"
            runner.save_checkpoint(file)
            again = Classifier.load_from_checkpoint(file)
            return {"trained": model.net(x), "loaded": again.net(x), "steps": runner.global_step}

    return Case(model, values=values)


CASES = {"module": module, "trainer": trainer}
