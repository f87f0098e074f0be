"""Hosts reached by ssh, or this machine, for the artifact's verbs.

Packed into jobctl; Python 3.8.
"""

from __future__ import annotations

from ...runtime.engines.hosts_engine import HostsEngine

ENGINE = HostsEngine
