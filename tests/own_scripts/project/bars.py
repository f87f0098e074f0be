# A bar of tqdm with its loss.
import time

from tqdm.auto import tqdm, trange

for epoch in trange(2, desc="epochs", leave=False):
    bar = tqdm(range(30), desc=f"epoch {epoch}")
    for step in bar:
        bar.set_postfix(loss=f"{1 / (step + 1):.3f}")
        time.sleep(0.01)
tqdm.write("all epochs are done")
