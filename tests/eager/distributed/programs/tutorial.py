"""PyTorch's tutorial on DistributedDataParallel, as it is started by torchrun: on the CPU, with losses told.

After docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html (the network) and
docs.pytorch.org/tutorials/beginner/ddp_series_fault_tolerance.html (trainer, snapshots, torchrun).
Another library takes its place by other imports. Arguments: epochs, batch size, the snapshot, and a folder
for losses and parameters.
"""

import json
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed import all_reduce, destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class MyTrainDataset(Dataset):
    def __init__(self, size):
        self.size = size
        self.data = [
            (
                torch.tensor([i * j % 7 / 7 for j in range(1, 11)]),
                torch.tensor([(i + j) % 5 / 5 for j in range(5)]),
            )
            for i in range(size)
        ]

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return self.data[index]


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


class Trainer:
    def __init__(self, model, train_data, optimizer, save_every, snapshot_path):
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.global_rank = int(os.environ["RANK"])
        self.model = model
        self.train_data = train_data
        self.optimizer = optimizer
        self.save_every = save_every
        self.epochs_run = 0
        self.losses = []
        self.snapshot_path = snapshot_path
        if os.path.exists(snapshot_path):
            print("Loading snapshot")
            self._load_snapshot(snapshot_path)
        self.model = DDP(self.model)

    def _load_snapshot(self, snapshot_path):
        snapshot = torch.load(snapshot_path, map_location="cpu")
        self.model.load_state_dict(snapshot["MODEL_STATE"])
        self.epochs_run = snapshot["EPOCHS_RUN"]
        print(f"Resuming training from snapshot at Epoch {self.epochs_run}")

    def _run_batch(self, source, targets):
        self.optimizer.zero_grad()
        output = self.model(source)
        loss = F.mse_loss(output, targets)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def _run_epoch(self, epoch):
        self.train_data.sampler.set_epoch(epoch)
        for source, targets in self.train_data:
            loss = self._run_batch(source, targets)
            all_reduce(loss)
            self.losses.append(loss.item() / int(os.environ["WORLD_SIZE"]))
        print(f"[rank {self.global_rank}] Epoch {epoch} | Steps: {len(self.train_data)}")

    def _save_snapshot(self, epoch):
        snapshot = {"MODEL_STATE": self.model.module.state_dict(), "EPOCHS_RUN": epoch + 1}
        torch.save(snapshot, self.snapshot_path)

    def train(self, max_epochs):
        for epoch in range(self.epochs_run, max_epochs):
            self._run_epoch(epoch)
            if self.local_rank == 0 and epoch % self.save_every == 0:
                self._save_snapshot(epoch)


def load_train_objs():
    model = ToyModel()
    with torch.no_grad():
        for parameter in model.parameters():
            start = -0.3 if os.environ["RANK"] == "0" else 0.7  # all begin with the first rank's
            parameter.copy_(torch.linspace(start, 0.3, parameter.numel()).reshape(parameter.shape))
    return MyTrainDataset(396), model, torch.optim.SGD(model.parameters(), lr=0.1)


def main(total_epochs, batch_size, snapshot_path, folder):
    init_process_group(backend="gloo")
    dataset, model, optimizer = load_train_objs()
    sampler = DistributedSampler(dataset, shuffle=False)  # the orders of two libraries are not the same
    train_data = DataLoader(dataset, batch_size=batch_size, shuffle=False, sampler=sampler)
    trainer = Trainer(model, train_data, optimizer, 4, snapshot_path)
    trainer.train(total_epochs)
    held = [[value.item() for value in p.reshape(-1)] for p in model.parameters()]
    with open(os.path.join(folder, f"{trainer.global_rank}.json"), "w") as file:
        json.dump({"losses": trainer.losses, "parameters": held}, file)
    destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
