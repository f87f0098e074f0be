"""A stand-in for fine-tuning scripts around Hugging Face's Trainer: arguments, last checkpoint, train, save."""

import os
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint


class Bytes(torch.utils.data.Dataset):
    def __init__(self, path, size=16):
        text = torch.frombuffer(bytearray(open(path, "rb").read()), dtype=torch.uint8).long()
        self.blocks = text[: len(text) // size * size].view(-1, size)

    def __len__(self):
        return len(self.blocks)

    def __getitem__(self, index):
        return {"input_ids": self.blocks[index], "labels": self.blocks[index]}


def main():
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    set_seed(args.seed)
    last = get_last_checkpoint(args.output_dir) if os.path.isdir(args.output_dir) else None
    model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=16, n_embd=16, n_layer=1, n_head=2))
    trainer = Trainer(model=model, args=args, train_dataset=Bytes(__file__))
    result = trainer.train(resume_from_checkpoint=last)
    trainer.save_model()
    trainer.log_metrics("train", result.metrics)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()  # without this, torch 2.13's gloo sometimes aborts at exit


if __name__ == "__main__":
    sys.exit(main())
