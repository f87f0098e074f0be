"""ssh: one connection per host starts its node under a supervisor that keeps running without the connection.

Emits: hosts.txt.
Launch: ./jobctl submit
Source: ssh(1) and ssh_config(5) of OpenSSH 9.2.
"""

from .._shared.ssh import SshHostsBackend


class SshBackend(SshHostsBackend):
    name = "ssh"


BACKEND = SshBackend()
