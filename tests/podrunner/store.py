"""The cluster's objects, as JSON-able data, and a condition that wakes whoever waits for a change."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]


class Store:
    """(plural, name) -> object, in one namespace. Use it only inside `with store.changed:`."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.objects: dict[tuple[str, str], Object] = {}
        self.version = 0
        self.is_restricted = False  # the Pod Security level that the namespace enforces

    def add(self, plural: str, item: Object) -> None:
        metadata = item["metadata"]
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = now()
        self.objects[plural, metadata["name"]] = item
        self.touch(item)

    def get(self, plural: str, name: str) -> Object | None:
        return self.objects.get((plural, name))

    def all(self, plural: str, selector: str = "") -> Iterator[Object]:
        """Yield all objects of a kind. selector: `key=value,key=value`"""
        wanted = dict(part.split("=", 1) for part in selector.replace("==", "=").split(",") if part)
        for (kind, _), item in list(self.objects.items()):
            if kind == plural and wanted.items() <= item["metadata"].get("labels", {}).items():
                yield item

    def remove(self, plural: str, name: str) -> None:
        """Remove an object and the objects that it owned."""
        gone = self.objects.pop((plural, name), None)
        if gone is not None:
            uid = gone["metadata"]["uid"]
            for (kind, other), item in list(self.objects.items()):
                if any(owner["uid"] == uid for owner in item["metadata"].get("ownerReferences", ())):
                    self.remove(kind, other)
        self.version += 1
        self.changed.notify_all()

    def touch(self, item: Object) -> None:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self.changed.notify_all()


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
