"""A stand-in for scripts written for Hugging Face accelerate: the Accelerator finds out how it was started."""

import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--cpu", action="store_true")
args = parser.parse_args()

accelerator = Accelerator(cpu=args.cpu, gradient_accumulation_steps=2)
set_seed(42)
inputs = torch.rand(256, 8)
data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
loader = DataLoader(data, batch_size=8, shuffle=True)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
for epoch in range(args.epochs):
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    losses = accelerator.gather_for_metrics(loss.detach().reshape(1))
    accelerator.print(f"epoch {epoch}: loss {losses.mean().item():.4f} of {accelerator.num_processes} processes")
    accelerator.save_state("accelerate_state")
accelerator.end_training()
