"""Read how the nodes of one attempt ended, from its run folder. Packed into jobctl."""

from __future__ import annotations

from pathlib import Path

from ....runtime.run_folder.run import Run


class RunPinnedToAttempt(Run):
    """A run pinned to one attempt, even if the run folder does not contain that attempt's copy of the artifact."""

    def __init__(self, path: Path, attempt: int) -> None:
        super().__init__(path)
        self._attempt = attempt

    @property
    def attempt(self) -> int | None:
        return self._attempt

    def has_ended(self, node: int) -> bool:
        """Return whether the node has recorded its exit code."""
        return (self.path / f"exit/{self._attempt}/node_{node:02}").is_file()

    def has_unseen_nodes(self, nodes: int) -> bool:
        """Return whether a node has recorded neither a state nor an exit code."""
        seen = {node.number for node in self.nodes()}
        return any(node not in seen and not self.has_ended(node) for node in range(nodes))

    def unfinished_node_count(self, nodes: int) -> int:
        """Return how many nodes have not recorded an exit code but may still do so."""
        missing = [node for node in self.nodes() if node.number < nodes and not self.has_ended(node.number)]
        return sum(self.status_of(node) not in ("dead", "silent") for node in missing)
