"""A stand-in for scripts like nanoGPT's train.py: globals are settings, configurator.py sets them, RANK means DDP."""

import os
import time
from contextlib import nullcontext

import torch
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP

out_dir = "out"
eval_interval = 5
init_from = "scratch"  # or resume
gradient_accumulation_steps = 4
batch_size = 8
block_size = 16
n_embd = 32
learning_rate = 1e-3
max_iters = 20
backend = "nccl"
device = "cuda"
config_keys = [k for k, v in globals().items() if not k.startswith("_") and isinstance(v, (int, float, bool, str))]
exec(open("configurator.py").read())
config = {k: globals()[k] for k in config_keys}

ddp = int(os.environ.get("RANK", -1)) != -1
if ddp:
    init_process_group(backend=backend)
    ddp_rank = int(os.environ["RANK"])
    ddp_local_rank = int(os.environ["LOCAL_RANK"])
    ddp_world_size = int(os.environ["WORLD_SIZE"])
    if "cuda" in device:
        device = f"cuda:{ddp_local_rank}"
        torch.cuda.set_device(device)
    master_process = ddp_rank == 0
    seed_offset = ddp_rank
    assert gradient_accumulation_steps % ddp_world_size == 0
    gradient_accumulation_steps //= ddp_world_size
else:
    master_process, seed_offset, ddp_world_size = True, 0, 1
if master_process:
    os.makedirs(out_dir, exist_ok=True)
torch.manual_seed(1337 + seed_offset)
text = torch.frombuffer(bytearray(open("nano.py", "rb").read()), dtype=torch.uint8).long()


def get_batch():
    starts = torch.randint(len(text) - block_size - 1, (batch_size,)).tolist()
    x = torch.stack([text[i : i + block_size] for i in starts])
    y = torch.stack([text[i + 1 : i + 1 + block_size] for i in starts])
    return x.to(device), y.to(device)


model = torch.nn.Sequential(torch.nn.Embedding(256, n_embd), torch.nn.GELU(), torch.nn.Linear(n_embd, 256)).to(device)
iter_num = 0
checkpoint_file = os.path.join(out_dir, "ckpt.pt")
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
if init_from == "resume":
    checkpoint = torch.load(checkpoint_file, map_location=device)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    iter_num = checkpoint["iter_num"]
if ddp:
    model = DDP(model, device_ids=[ddp_local_rank] if "cuda" in device else None)
raw_model = model.module if ddp else model

X, Y = get_batch()
while iter_num < max_iters:
    started = time.time()
    for micro_step in range(gradient_accumulation_steps):
        if ddp:
            model.require_backward_grad_sync = micro_step == gradient_accumulation_steps - 1
        with nullcontext():
            logits = model(X)
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), Y.flatten()) / gradient_accumulation_steps
        X, Y = get_batch()
        loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    iter_num += 1
    if master_process and iter_num % eval_interval == 0:
        print(
            f"iter {iter_num}: loss {loss.item() * gradient_accumulation_steps:.4f}, time {time.time() - started:.3f}s"
        )
        state = {"model": raw_model.state_dict(), "optimizer": optimizer.state_dict(), "iter_num": iter_num}
        torch.save({**state, "config": config}, checkpoint_file)
if ddp:
    destroy_process_group()
