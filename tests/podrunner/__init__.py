"""Runs the emitted Kubernetes manifests without Kubernetes: an API server for kubectl, a Job controller, kubelets.

    with PodRunner(cluster, claims={"shared": folder}) as runner:
        subprocess.run(["kubectl", "create", "-k", artifact], env={**os.environ, "KUBECONFIG": str(runner.kubeconfig)})

Pods are processes in namespaces of their own (PID, mounts, host name) on the hosts of the test bed, one pod on a host,
with the host's network as the pod's. What is modelled was observed on Kubernetes v1.36.2, and each case is a test in
test_*.py here: identity and names of an Indexed Job, headless Services with and without not-ready addresses,
`$(VAR)`, fieldRef, ConfigMap and emptyDir volumes, /dev/shm, PID 1 and SIGTERM, grace, exit codes, podFailurePolicy,
backoffLimit, replacement of pods, deadlines, deletion, eviction, Pending pods, init containers; strict decoding of what
is sent. Sidecars and second containers are as the manual says.

Priority classes there are none, so a pod that names one is refused, and its Job has a Warning event that says so.

RBAC is a set of forbidden verbs, and images of missing.example/ cannot be pulled.

Not modelled: other images (a pod sees its host's files), probes, a Memory volume that two containers share,
CPU and memory limits and the OOM killer, users and capabilities, network policies, real DNS with its caches, several
pods on a node, priorities and preemption, taints, affinities and topology spread (any free node will do), Kueue,
quotas, admission, NonIndexed Jobs, backoffLimitPerIndex, successPolicy, suspend, OnFailure. JobSet and TrainJob as
their sources say, not as observed (jobset.py).
Times are shorter: a failed pod is replaced after BACKOFF_S, doubled each time, where Kubernetes begins with 10 s.
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
