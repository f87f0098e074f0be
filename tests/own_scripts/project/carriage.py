# A line that is written over, without a flush and without an end.
import time

for step in range(1, 21):
    print(f"\rstep {step:2d}/20 loss {1 / step:.3f}", end="")
    time.sleep(0.005)
