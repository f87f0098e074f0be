"""Run the emitted Kubernetes manifests without Kubernetes: an API server for kubectl, a Job controller, kubelets.

    with PodRunner(cluster, claims={"shared": folder}) as runner:
        subprocess.run(["kubectl", "create", "-k", artifact], env={**os.environ, "KUBECONFIG": str(runner.kubeconfig)})

Pods are processes in their own namespaces (PID, mounts, host name) on the hosts of the test bed. Each host runs one
pod, and the host's network is the pod's. The modelled behavior was observed on Kubernetes v1.36.2, and each case is a
test in test_*.py here: identity and names of an Indexed Job, headless Services with and without not-ready addresses,
`$(VAR)`, fieldRef, ConfigMap and emptyDir volumes, /dev/shm, PID 1 and SIGTERM, grace periods, exit codes,
podFailurePolicy, backoffLimit, replacement of pods, deadlines, deletion, eviction, Pending pods, init containers;
strict decoding of requests. Sidecars and second containers behave as described in the manual.

There are no priority classes, so a pod that requests one is rejected, and its Job gets a Warning event with the reason.

RBAC is a set of forbidden verbs, and images from missing.example/ cannot be pulled.

Not modelled: other images (a pod sees its host's files), probes, a Memory volume shared by two containers, CPU and
memory limits and the OOM killer, users and capabilities, network policies, real DNS with its caches, several pods on a
node, priorities and preemption, taints, affinities and topology spread (any free node is used), Kueue, quotas,
admission, NonIndexed Jobs, backoffLimitPerIndex, successPolicy, suspend, OnFailure. JobSet and TrainJob follow their
source code, not observations (jobset.py).
Times are shorter: a failed pod is replaced after BACKOFF_S, doubled each time; Kubernetes starts with 10 s.
"""

import os
import shutil
import sys

from .runner import PodRunner

# The one of the extra `dev`, or another one: what the scripts call is a real kubectl.
KUBECTL = (
    shutil.which("kubectl", path=os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))) or "kubectl"
)

__all__ = ["KUBECTL", "PodRunner"]
