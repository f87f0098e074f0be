"""A pod's volumes as folders of its host, and what a container sees of them."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .environment import NotYet
from .store import Object


@dataclass
class Volumes:
    """Volumes that a pod may refer to. claims, exports: folder behind a claim, or behind SERVER:/PATH"""

    claims: Mapping[str, Path]
    exports: Mapping[str, Path]
    config_maps: Mapping[str, Object]
    secrets: Mapping[str, Object]
    services: Sequence[Object]

    def mounts(self, pod: Object, container: Object, folder: Path) -> list[tuple[str, str, str, str]]:
        """Return KIND SOURCE TARGET OPTIONS for each volumeMount. folder: the pod's, shared by its containers"""
        rows = []
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
        for mount in container.get("volumeMounts", ()):
            volume = volumes[mount["name"]]
            options = "ro" if mount.get("readOnly") else ""
            if "configMap" in volume:
                options = "ro"
                name = volume["configMap"]["name"]
                if name not in self.config_maps and not volume["configMap"].get("optional"):
                    raise NotYet(f'configmap "{name}" not found')
                source = _project(self.config_maps.get(name, {}), folder / "volumes" / mount["name"])
            elif "persistentVolumeClaim" in volume:
                name = volume["persistentVolumeClaim"]["claimName"]
                if name not in self.claims:
                    raise NotYet(f'persistentvolumeclaim "{name}" not found')
                source = self.claims[name]
            elif "nfs" in volume:
                source = self.exports[f"{volume['nfs']['server']}:{volume['nfs']['path']}"]
            elif "hostPath" in volume:
                source = Path(volume["hostPath"]["path"])
            elif volume["emptyDir"].get("medium") == "Memory":
                size = volume["emptyDir"].get("sizeLimit")
                option = f"mode=1777,size={_bytes(size)}" if size else "mode=1777"
                rows.append(("tmpfs", "tmpfs", mount["mountPath"], option))
                continue
            else:
                source = folder / "volumes" / mount["name"]
                source.mkdir(parents=True, exist_ok=True)
                source.chmod(0o777)
            rows.append(("bind", str(source), mount["mountPath"], options))
        return rows


def _project(config_map: Object, folder: Path) -> Path:
    """Write a ConfigMap as a folder: KEY -> ..data/KEY, ..data -> ..TIME; mode 0644."""
    if folder.exists():  # another container of the pod has created it
        return folder
    data = folder / "..2026_11_21_06_04_38.4145333303"
    data.mkdir(parents=True)
    (folder / "..data").symlink_to(data.name)
    contents = {key: text.encode() for key, text in config_map.get("data", {}).items()}
    contents |= {key: base64.b64decode(text) for key, text in config_map.get("binaryData", {}).items()}
    for key, content in contents.items():
        (data / key).write_bytes(content)
        (folder / key).symlink_to(f"..data/{key}")
    return folder


def _bytes(quantity: str) -> int:
    units = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
    return int(quantity[:-2]) * units[quantity[-2:]] if quantity[-2:] in units else int(quantity)
