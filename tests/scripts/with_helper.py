"""A user's own training with jobc's helper. Arguments: number of steps, and extra seconds per step."""

import sys
import time

import torch
from jobc_trainer import script
from torch.nn.parallel import DistributedDataParallel

rt = script.init()
torch.manual_seed(0)  # the same initial weights on all ranks
model = DistributedDataParallel(torch.nn.Linear(8, 1).to(rt.device))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
torch.manual_seed(rt.rank)  # and different data on each rank
if state := rt.load():
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])

num_steps = int(sys.argv[1])
for step in range(rt.step, num_steps):
    inputs = torch.rand(16, 8)
    loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    rt.log(step + 1, loss=loss.item())
    stop = rt.preempted()
    if stop or rt.save_asked or (step + 1) % 10 == 0:
        rt.save(step + 1, {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}, wait=stop)
    if stop and step + 1 < num_steps:
        rt.leave()
    time.sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 0)
if rt.is_first:
    print("weights", *(value.item().hex() for value in torch.cat([p.flatten() for p in model.parameters()])))
rt.finish()
