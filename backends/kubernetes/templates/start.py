# Unpacks the other files to a folder of this pod, and becomes `jobctl join`.
import os
import shutil
import sys

files = os.path.dirname(os.path.abspath(__file__))
artifact = os.path.join(os.path.dirname(files), "artifact")
program = os.path.join(artifact, "jobctl")
try:
    import lzma

    for key in [] if os.path.exists(program) else os.listdir(files):
        if not key.startswith("..") and key not in ("start.py", "jobctl.xz"):  # `..`: links of the kubelet
            path = os.path.join(artifact, key.replace("--", "/"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            shutil.copyfile(os.path.join(files, key), path)
    if not os.path.exists(program):
        with lzma.open(os.path.join(files, "jobctl.xz")) as packed, open(program + ".new", "wb") as file:
            shutil.copyfileobj(packed, file)
        os.chmod(program + ".new", 0o755)
        os.rename(program + ".new", program)
except Exception as error:
    sys.exit(f"error: cannot unpack the job: {error}")
os.execv(sys.executable, [sys.executable, "-I", "-S", program, "join", *sys.argv[1:]])
