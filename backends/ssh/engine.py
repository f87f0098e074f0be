"""Hosts that ssh reaches, for the verbs of an artifact.

Packed into jobctl; Python 3.8.
"""

from __future__ import annotations

from ...runtime.engines.hosts_engine import HostsEngine

ENGINE = HostsEngine
