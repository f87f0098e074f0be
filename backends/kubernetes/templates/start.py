# Unpacks jobctl to a folder of this pod, and becomes `jobctl join`, which unpacks the other files.
import os
import sys

files = os.path.dirname(os.path.abspath(__file__))
program = os.path.join(os.path.dirname(files), "artifact", "jobctl")
try:
    import bz2

    if not os.path.exists(program):
        with bz2.open(os.path.join(files, "jobctl.bz2")) as packed, open(program + ".new", "wb") as file:
            file.write(packed.read())
        os.rename(program + ".new", program)
except Exception as error:
    sys.exit(f"error: cannot unpack the job: {error}")
os.execv(sys.executable, [sys.executable, "-I", "-S", program, "join", *sys.argv[1:]])
