"""Run the artifact's verbs on hosts reached by ssh, or on this machine. Packed into jobctl; Python 3.8."""

from __future__ import annotations

from ...runtime.engines.hosts_engine import HostsEngine

ENGINE = HostsEngine
