"""accelerate: a prepared loop with accumulated gradients, and a saved state."""

import tempfile

import torch
from accelerate import Accelerator

from libraries.case import Case, numbers, training


def network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4))


def steps() -> Case:
    accelerator = Accelerator(cpu=True)
    model = accelerator.prepare(network())
    x, goal = numbers(16, 8), numbers(16, 4, seed=1)
    return training(model, lambda: torch.nn.functional.mse_loss(model(x), goal))


def loop() -> Case:
    model = network()

    def values() -> dict[str, torch.Tensor]:
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
        data = torch.utils.data.TensorDataset(numbers(32, 8), numbers(32, 4, seed=1))
        prepared, optimizer, batches, schedule = accelerator.prepare(
            model,
            optimizer := torch.optim.AdamW(model.parameters(), lr=0.01),
            torch.utils.data.DataLoader(data, batch_size=8),
            torch.optim.lr_scheduler.StepLR(optimizer, 2),
        )
        for x, goal in batches:
            with accelerator.accumulate(prepared):
                accelerator.backward(torch.nn.functional.mse_loss(prepared(x), goal))
                accelerator.clip_grad_norm_(prepared.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        trained = accelerator.unwrap_model(prepared)(numbers(4, 8)).detach()
        with tempfile.TemporaryDirectory() as folder:
            accelerator.save_state(folder)
            torch.nn.init.zeros_(model[0].weight)
            accelerator.load_state(folder)
            return {"trained": trained, "loaded": model(numbers(4, 8)), "rate": schedule.get_last_lr()}

    return Case(model, values=values)


CASES = {"steps": steps, "loop": loop}
