"""Train with Lightning Fabric: the loop is one's own."""

import os

import torch
from lightning.fabric import Fabric

devices = int(os.environ["LOCAL_WORLD_SIZE"])
num_nodes = int(os.environ["WORLD_SIZE"]) // devices
fabric = Fabric(accelerator="cpu", devices=devices, num_nodes=num_nodes, strategy="ddp")
fabric.launch()
fabric.seed_everything(1 + fabric.global_rank)
model = torch.nn.Linear(4, 1)
model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
for _ in range(8):
    x = torch.randn(8, 4)
    loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    fabric.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
fabric.print(f"mean loss of {fabric.world_size} ranks: {fabric.all_gather(loss.detach()).mean():.3f}")
fabric.save("fabric.ckpt", {"model": model})
