"""Code shared by several backends: hosts.py for nodes and mounts, sbatch_options.py, gpus.py, kubernetes_*.py for pods."""
