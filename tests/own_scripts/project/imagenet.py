# Meters, a checkpoint in the working directory, a copy of the best, and --resume with its path.
import argparse
import json
import os
import shutil

parser = argparse.ArgumentParser(description="ImageNet training")
parser.add_argument("data", metavar="DIR", nargs="?", default="imagenet")
parser.add_argument("-a", "--arch", default="resnet18")
parser.add_argument("--epochs", default=90, type=int)
parser.add_argument("--resume", default="", type=str, metavar="PATH")
parser.add_argument("-p", "--print-freq", default=10, type=int)


class AverageMeter:
    def __init__(self, name, fmt=":f"):
        self.name, self.fmt, self.sum, self.count = name, fmt, 0.0, 0

    def update(self, val):
        self.val, self.sum, self.count = val, self.sum + val, self.count + 1

    def __str__(self):
        fmtstr = "{name} {val" + self.fmt + "} ({avg" + self.fmt + "})"
        return fmtstr.format(name=self.name, val=self.val, avg=self.sum / self.count)


def save_checkpoint(state, is_best, filename="checkpoint.pth.tar"):
    with open(filename, "w") as file:
        json.dump(state, file)
    if is_best:
        shutil.copyfile(filename, "model_best.pth.tar")


def main():
    args = parser.parse_args()
    start_epoch, best_acc1 = 0, 0.0
    if args.resume:
        if os.path.isfile(args.resume):
            with open(args.resume) as file:
                checkpoint = json.load(file)
            start_epoch, best_acc1 = checkpoint["epoch"], checkpoint["best_acc1"]
            print(f"=> loaded checkpoint '{args.resume}' (epoch {start_epoch})")
        else:
            print(f"=> no checkpoint found at '{args.resume}'")
    for epoch in range(start_epoch, args.epochs):
        losses = AverageMeter("Loss", ":.4e")
        for i in range(20):
            losses.update(1 / (1 + epoch * 20 + i))
            if i % args.print_freq == 0:
                print(f"Epoch: [{epoch}][{i + 1:2d}/20]", losses, sep="\t")
        acc1 = 10.0 * (epoch + 1)
        save_checkpoint({"epoch": epoch + 1, "best_acc1": max(acc1, best_acc1)}, acc1 > best_acc1)
        best_acc1 = max(acc1, best_acc1)


if __name__ == "__main__":
    main()
