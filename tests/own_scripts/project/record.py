# env:// with gloo and a timeout, @record, DDP, and a DataLoader with workers.
import argparse
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


@record
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fail", action="store_true")
    args = parser.parse_args()
    dist.init_process_group("gloo", init_method="env://", timeout=timedelta(seconds=60))
    data = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data), num_workers=1)
    model = DDP(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in loader:
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if args.fail:
        raise ValueError("the loss is wrong")
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), "ddp.pt")
        print("trained on", dist.get_world_size(), "ranks")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
