# deepspeed.initialize with ZeRO stage 1, and its --deepspeed_config.
import argparse

import deepspeed
import torch

parser = deepspeed.add_config_arguments(argparse.ArgumentParser())
parser.add_argument("--local_rank", type=int, default=-1)
parser.add_argument("--steps", type=int, default=3)
args = parser.parse_args()
deepspeed.init_distributed("gloo")
model = torch.nn.Linear(4, 1)
engine, *_ = deepspeed.initialize(args=args, model=model, model_parameters=model.parameters())
engine.load_checkpoint("ds_checkpoints")
for _ in range(args.steps):
    loss = engine(torch.randn(8, 4)).square().mean()
    engine.backward(loss)
    engine.step()
engine.save_checkpoint("ds_checkpoints", tag="last")
if torch.distributed.get_rank() == 0:
    print("trained", engine.global_steps, "steps on", torch.distributed.get_world_size(), "ranks")
torch.distributed.destroy_process_group()
