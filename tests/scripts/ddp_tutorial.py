"""A stand-in for the script of PyTorch's DDP tutorial: torchrun's environment, a sampler, one snapshot of rank 0."""

import argparse
import os

import torch
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Points(Dataset):
    def __init__(self, size):
        generator = torch.Generator().manual_seed(0)
        self.points = torch.rand(size, 20, generator=generator)
        self.targets = self.points.sum(1, keepdim=True)

    def __len__(self):
        return len(self.points)

    def __getitem__(self, index):
        return self.points[index], self.targets[index]


class Trainer:
    def __init__(self, model, loader, optimizer, save_every, snapshot_path):
        self.rank = int(os.environ["RANK"])
        self.model, self.loader, self.optimizer = model, loader, optimizer
        self.save_every, self.snapshot_path = save_every, snapshot_path
        self.epochs_run = 0
        if os.path.exists(snapshot_path):
            snapshot = torch.load(snapshot_path, map_location="cpu")
            self.model.load_state_dict(snapshot["MODEL_STATE"])
            self.epochs_run = snapshot["EPOCHS_RUN"]
            print(f"Resuming training from snapshot at Epoch {self.epochs_run}")
        self.model = DDP(self.model)

    def train(self, max_epochs):
        for epoch in range(self.epochs_run, max_epochs):
            self.loader.sampler.set_epoch(epoch)
            for source, targets in self.loader:
                self.optimizer.zero_grad()
                loss = torch.nn.functional.mse_loss(self.model(source), targets)
                loss.backward()
                self.optimizer.step()
            print(f"[rank {self.rank}] Epoch {epoch} | Steps: {len(self.loader)} | Loss {loss.item():.4f}")
            if self.rank == 0 and epoch % self.save_every == 0:
                snapshot = {"MODEL_STATE": self.model.module.state_dict(), "EPOCHS_RUN": epoch + 1}
                torch.save(snapshot, self.snapshot_path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("total_epochs", type=int)
    parser.add_argument("save_every", type=int)
    parser.add_argument("--batch_size", type=int, default=32)
    args = parser.parse_args()
    init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    torch.manual_seed(0)
    model = torch.nn.Linear(20, 1)
    points = Points(2048)
    loader = DataLoader(points, batch_size=args.batch_size, sampler=DistributedSampler(points))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    Trainer(model, loader, optimizer, args.save_every, "snapshot.pt").train(args.total_epochs)
    destroy_process_group()


if __name__ == "__main__":
    main()
