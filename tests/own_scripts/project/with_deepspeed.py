"""Train with DeepSpeed's ZeRO stage 1 on the CPU."""

import argparse

import deepspeed
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
parser = deepspeed.add_config_arguments(parser)
args = parser.parse_args()

config = {
    "train_micro_batch_size_per_gpu": 4,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}},
    "zero_optimization": {"stage": 1},
}
deepspeed.init_distributed("gloo")
model = torch.nn.Linear(4, 1)
engine, _, _, _ = deepspeed.initialize(args=args, model=model, model_parameters=model.parameters(), config=config)
for _ in range(4):
    x = torch.randn(4, 4)
    loss = torch.nn.functional.mse_loss(engine(x), x.sum(1, keepdim=True))
    engine.backward(loss)
    engine.step()
engine.save_checkpoint("deepspeed_ckpt", tag="last")
if torch.distributed.get_rank() == 0:
    print(f"step {engine.global_steps} on {torch.distributed.get_world_size()} ranks")
