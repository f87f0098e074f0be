"""Kubernetes, for the verbs of an artifact. Packed into jobctl; Python 3.8."""

from .kubernetes_engine import KubernetesEngine

ENGINE = KubernetesEngine
