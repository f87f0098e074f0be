"""Compute the checksum of POSIX cksum(1), which hosts and containers can compute without Python."""

from __future__ import annotations

_POLYNOMIAL = 0x04C11DB7


def cksum(content: bytes) -> int:
    """Return the CRC-32 of the content followed by its length, with the most significant bit first."""
    length = len(content)
    crc = 0
    for byte in content + length.to_bytes((length.bit_length() + 7) // 8, "little"):
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1 ^ (_POLYNOMIAL if crc & 1 << 31 else 0)) & 0xFFFFFFFF
    return crc ^ 0xFFFFFFFF
