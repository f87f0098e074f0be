# Asks before it overwrites, and takes no answer for yes.
import os

out = "experiment"
if os.path.exists(out):
    try:
        answer = input(f"{out} exists. Overwrite? [Y/n] ")
    except EOFError:
        answer = "y"
    if answer.lower() == "n":
        raise SystemExit("stopped")
os.makedirs(out, exist_ok=True)
with open(os.path.join(out, "model.bin"), "wb") as file:
    file.write(b"weights")
print("wrote the experiment again" if len(os.listdir(out)) > 1 else "wrote the experiment")
