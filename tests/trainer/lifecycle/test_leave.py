"""Errors that count as a lost peer (69), after which Slurm and others restart the job, and errors of the program
itself.
"""

from __future__ import annotations

import pytest
from torch import AcceleratorError
from torch.distributed import DistBackendError, DistNetworkError, DistStoreError

from jobc.runtime.exit_codes import DATA_BROKEN, PEER_LOST
from jobc.trainer.lifecycle.exit_rank import known_cause

GLOO = "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/"  # torch 2.13, as seen when a rank was killed
LOST = [
    RuntimeError(f"{GLOO}pair.cc:553] Connection closed by peer [127.0.0.1]:65178. This is typically caused by …"),
    RuntimeError(f"{GLOO}pair.cc:538] Read error [10.0.0.7]:4711: Connection reset by peer"),
    RuntimeError(f"{GLOO}unbound_buffer.cc:78] Timed out waiting 3000ms for recv operation to complete"),
    RuntimeError("Application timeout caused pair closure"),
    DistBackendError("NCCL error in: NCCLUtils.cpp:77, remote process exited or there was a network error"),
    DistNetworkError("Connection reset by peer"),
    DistStoreError("wait timeout after 1000ms, keys: /default_pg/0//0:0"),
]
OTHERS = [
    RuntimeError("GET s3://bucket/shard-17: connection reset by peer"),
    RuntimeError("timed out waiting for the lock of the data"),
    RuntimeError("[my_reader/pair.py:3] Connection reset by peer"),
    ConnectionResetError("Connection reset by peer"),
    DistBackendError("NCCL error in: NCCLUtils.cpp:77, invalid usage"),
]


@pytest.mark.parametrize("error", LOST)
def test_what_torch_says_of_a_rank_that_is_gone_is_a_lost_peer(
    error: RuntimeError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)  # as below srun
    known = known_cause(error)
    assert known is not None
    assert known.code == PEER_LOST
    assert "/gloo/" not in known.title
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert known_cause(error) is None  # there is no peer


@pytest.mark.parametrize("error", OTHERS)
def test_what_the_program_itself_says_keeps_its_traceback(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert known_cause(error) is None


def test_an_assertion_on_a_gpu_is_broken_data_whose_traceback_would_mislead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    error = AcceleratorError("CUDA error: device-side assert triggered\nCUDA kernel errors might be …")
    known = known_cause(error)
    assert known is not None and known.code == DATA_BROKEN and "CUDA_LAUNCH_BLOCKING=1" in str(known)
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    assert known_cause(error) is None  # now it is in the right place
