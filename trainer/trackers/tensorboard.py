"""Write TensorBoard event files to tensorboard/ in the run folder. View them with `tensorboard --logdir RUN`.

Does not use the tensorboard package, because its import takes longer than the first steps of a small training run.
Format: records of length, masked CRC-32C of the length, bytes, masked CRC-32C of the bytes (TensorFlow's
        lib/io/record_writer.h); the bytes are an Event from event.proto, of which four fields are used.
"""

import os
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from . import TrackedRun

POLYNOMIAL = 0x82F63B78  # CRC-32C, reflected


class EventFile:
    """One event file of scalars; each attempt adds a file in the same folder."""

    def __init__(self, folder: Path, first_step: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # the time comes first in the name because TensorBoard reads a folder's files in the order of their names
        name = f"events.out.tfevents.{time.time_ns() // 10**9:010d}.{os.uname().nodename}.{os.getpid()}"
        self._file = open(folder / name, "ab")  # noqa: SIM115 closed by close()
        self._write_event(0, text_field(3, b"brain.Event:2"))  # file_version
        # session_log START invalidates what earlier attempts logged for this step and later steps
        self._write_event(first_step + 1, text_field(7, varint_field(1, 1)))
        self._file.flush()

    def log(self, step: int, values: Mapping[str, float]) -> None:
        fields = (text_field(1, name.encode()) + b"\x15" + struct.pack("<f", value) for name, value in values.items())
        self._write_event(step, text_field(5, b"".join(text_field(1, field) for field in fields)))  # summary, values
        self._file.flush()

    def close(self, done: bool) -> None:
        """Close the file; nothing is buffered."""
        self._file.close()

    def _write_event(self, step: int, body: bytes) -> None:
        event = b"\x09" + struct.pack("<d", time.time()) + varint_field(2, step) + body
        length = struct.pack("<Q", len(event))
        self._file.write(length + masked_crc32c(length) + event + masked_crc32c(event))


def open_run(run: TrackedRun) -> EventFile:
    return EventFile(run.folder / "tensorboard", run.step)


def varint_field(number: int, value: int) -> bytes:
    """Encode a protobuf field of wire type 0."""
    return bytes([number << 3]) + _encode_varint(value)


def text_field(number: int, value: bytes) -> bytes:
    """Encode a protobuf field of wire type 2: text, bytes or a message."""
    return bytes([number << 3 | 2]) + _encode_varint(len(value)) + value


def _encode_varint(value: int) -> bytes:
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def _crc_table_entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (POLYNOMIAL if byte & 1 else 0)
    return byte


TABLE = tuple(_crc_table_entry(byte) for byte in range(256))


def masked_crc32c(content: bytes) -> bytes:
    """Return the CRC-32C, masked as in TensorFlow: rotated, plus a constant."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
