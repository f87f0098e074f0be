# An exit code of its own says why it ended.
import sys

losses = [1.0, 0.9, 0.95, 0.97]
for epoch, loss in enumerate(losses):
    print(f"epoch {epoch}: val_loss {loss}")
    if epoch >= 2 and loss > losses[epoch - 1] > losses[epoch - 2]:
        print("no improvement for 2 epochs")
        sys.exit(3)
