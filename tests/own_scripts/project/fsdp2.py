# Weights sharded by fully_shard, saved by torch.distributed.checkpoint.
import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(2)))
mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
weights, moments = get_state_dict(model, optimizer)
dcp.save({"model": weights, "optim": moments}, checkpoint_id="ckpt/step_2")
dcp.load({"model": weights, "optim": moments}, checkpoint_id="ckpt/step_2")
set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
print("saved", len(os.listdir("ckpt/step_2")), "files")
dist.destroy_process_group()
