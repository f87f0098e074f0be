"""The process group: rendezvous, and the few messages that the trainer sends besides gradients.

join_process_group() runs the rendezvous and yields the RankGroup that the rest of the trainer uses. With world_size 1,
there is no process group, and every operation returns its input.
"""

import io
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import field
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import HashStore, PrefixStore, Store, TCPStore  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import _set_pg_timeout, _world

from ...runtime.network.reach import wait_until_port_answers
from ...runtime.system.frozen_dataclass import dataclass
from ..lifecycle.errors import BrokenInput, RendezvousFailed, StoppedBeforeTraining
from .env import RankEnvironment
from .phases import Phases
from .process_group_end import keep_groups_alive

BEAT_S = 1.0  # time between heartbeats of a rank whose disk the others are waiting for
BOARD_TIMEOUT_S = 1.5  # timeout for the hang watchdog's store operations
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.01, 0.25  # between polls during the rendezvous
STOP_S = 1.0  # time that a stop signal may take to reach all ranks of a node
BROADCAST_BYTES = 64 * 1024 * 1024  # maximum size of a message, which must arrive within the step timeout

T = TypeVar("T")


@dataclass(frozen=True)
class RankGroup:
    """The job's ranks, as seen by one rank.

    device: the model's device.
    board:  separate connection to the rendezvous store, or None if world_size is 1 or the connection cannot be opened.
    phases: phases of this rank, for the watchdog.
    """

    rank: int
    world_size: int
    device: torch.device
    board: Store | None = None
    phases: Phases = field(default_factory=Phases, compare=False)

    @property
    def is_first(self) -> bool:
        """Return whether this is rank 0, which writes checkpoints and the console."""
        return self.rank == 0

    def start_sum(self, values: Sequence[float]) -> Callable[[], list[float]]:
        """Start the sum of `values` over all ranks (float64, on the CPU). The returned function waits for the sums."""
        sums = self.start_sum_on_device(torch.tensor(values, dtype=torch.float64))
        return lambda: sums().tolist()

    def start_sum_on_device(self, values: Tensor) -> Callable[[], Tensor]:
        """Start the sum of float64 values on the rank's device; the GPU stream waits, not the rank."""
        total = values.clone()
        work = dist.all_reduce(total, async_op=True) if self.world_size > 1 else None

        def finish() -> Tensor:
            if work is not None:
                work.wait()
            return total

        return finish

    def all_gather(self, values: Tensor) -> list[Tensor]:
        """Gather the CPU tensors `values` from all ranks, in rank order. Shapes must match."""
        if self.world_size == 1:
            return [values]
        gathered = [torch.empty_like(values) for _ in range(self.world_size)]
        dist.all_gather(gathered, values)
        return gathered

    def all_gather_bytes(self, content: bytes) -> list[bytes]:
        """Gather a few bytes from all ranks, in rank order. Lengths must match."""
        return [bytes(row.tolist()) for row in self.all_gather(torch.tensor(list(content), dtype=torch.uint8))]

    def elementwise_maximum(self, values: Tensor) -> Tensor:
        """Replace `values`, a CPU tensor, with the elementwise maximum over all ranks, and return it."""
        if self.world_size > 1:
            dist.all_reduce(values, op=dist.ReduceOp.MAX)
        return values

    def broadcast_number(self, rank: int, number: int) -> int:
        holder = torch.tensor([number], dtype=torch.int64)
        if self.world_size > 1:
            dist.broadcast(holder, src=rank)
        return int(holder)

    def run_on_rank(self, rank: int, work: Callable[[], T], on_heartbeat: Callable[[], None]) -> T | None:
        """Run `work` on `rank` while all ranks wait, without a timeout. Return its result on that rank, None on others.

        A heartbeat every second lets `rank` and the others detect the loss of a peer, as messages do during a step.
        on_heartbeat: called on the other ranks at each heartbeat.
        """
        if self.world_size == 1:
            return work()
        if self.rank != rank:
            while not self.broadcast_number(rank, 0):
                on_heartbeat()
            return None
        thread = ThreadPoolExecutor(1)
        result = thread.submit(work)
        thread.shutdown(wait=False)  # the thread ends after its work; a rank that has lost a peer does not wait for it
        while not self.broadcast_number(rank, int(bool(wait([result], BEAT_S).done))):
            pass
        return result.result()

    def broadcast_bytes(self, rank: int, content: bytes) -> bytes:
        """Broadcast a few bytes from `rank`; the arguments of other ranks are ignored."""
        return bytes(self.broadcast_file(rank, io.BytesIO(content)).getbuffer())

    def broadcast_file(self, rank: int, content: io.BytesIO) -> io.BytesIO:
        """Broadcast an in-memory file from `rank`; the arguments of other ranks are ignored."""
        if self.world_size == 1:
            return content
        size = self.broadcast_number(rank, content.getbuffer().nbytes)
        if self.rank != rank:
            content = zero_filled_file(size)
        buffer = content.getbuffer()
        for start in range(0, size, BROADCAST_BYTES):
            piece = torch.frombuffer(buffer, dtype=torch.uint8, offset=start, count=min(BROADCAST_BYTES, size - start))
            dist.broadcast(piece, src=rank)
            self.phases.record_progress()
        return content

    def copy_from_rank_0(self, tensors: Iterable[Tensor]) -> None:
        """Copy rank 0's values into these tensors on all ranks, via the device. Shapes must match."""
        for tensor in tensors if self.world_size > 1 else ():
            content = tensor.detach().contiguous().flatten().view(torch.uint8)  # some dtypes cannot be sent
            for piece in torch.split(content, BROADCAST_BYTES):
                sent = piece.to(self.device)
                dist.broadcast(sent, src=0)
                piece.copy_(sent)
                self.phases.record_progress()
            if not tensor.is_contiguous():
                tensor.detach().copy_(content.view(tensor.dtype).view(tensor.shape))

    def use_timeout(self, seconds: int) -> None:
        """Treat any message between ranks that takes longer than this as a lost peer."""
        if self.world_size > 1:
            for group in list(_world.pg_map):
                _set_pg_timeout(timedelta(seconds=seconds), group)


def zero_filled_file(size: int) -> io.BytesIO:
    """Create an in-memory file of `size` zero bytes, to be filled through getbuffer()."""
    file = io.BytesIO()
    if size:
        file.seek(size - 1)
        file.write(b"\0")
        file.seek(0)
    return file


def choose_device(env: RankEnvironment) -> torch.device:
    """Return this rank's GPU, or the CPU if the job requests no GPUs. If the job does not specify the number of GPUs,
    return a GPU if there is one.

    Raises BrokenInput if this node has fewer GPUs than requested, because training on the CPU would take weeks.
    """
    num_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if env.gpus is not None and num_gpus < env.gpus:
        from ...runtime.system import gpus  # this module is packed only in jobs with GPUs

        raise BrokenInput(gpus.describe_usable_gpus(num_gpus, env.gpus), hint=gpus.HINT)
    if num_gpus == 0 or env.gpus == 0:
        return torch.device("cpu")
    return torch.device("cuda", env.local_rank % num_gpus)


@contextmanager
def join_process_group(
    env: RankEnvironment, init_timeout_s: int, stopped: Callable[[], bool] = lambda: False, even_alone: bool = False
) -> Iterator[RankGroup]:
    """Run the rendezvous, and destroy the process group at the end.

    even_alone: whether to create a process group even if world_size is 1, as DeepSpeed and FSDP require.
    stopped: function that is polled while waiting. If it returns true, StoppedBeforeTraining is raised.
    Raises RendezvousFailed if not all ranks join in time. After an exception in the body, the group is not destroyed,
    because destroying it is a collective and hangs if a rank is missing.
    """
    device = choose_device(env)
    if device.type == "cuda":
        torch.cuda.set_device(device)  # before init: communicators are created on the current device
    if env.world_size == 1:
        if even_alone:
            dist.init_process_group(_backend_names(device), store=HashStore(), rank=0, world_size=1)
        yield RankGroup(0, 1, device)
        return

    timeout = timedelta(seconds=init_timeout_s)
    if device.type == "cuda":
        enable_flight_recorder(os.environ, env.run_dir)
    if env.rank != 0:
        wait_for_master(env.master_addr, env.master_port, init_timeout_s, stopped)
    if stopped():
        raise StoppedBeforeTraining("stopped before the rendezvous was complete")
    try:
        store = _connect_to_store(env, timeout, serves=env.rank == 0 and not env.torchelastic_use_agent_store)
    except RuntimeError as error:
        title = f"rank {env.rank}: cannot open the rendezvous at {env.master_addr}:{env.master_port}"
        raise RendezvousFailed(title, [str(error).splitlines()[0]]) from error
    try:
        store.set(f"here/{env.rank}", "1")
        _wait_for_all(store, env, init_timeout_s, stopped)
        dist.init_process_group(
            backend=_backend_names(device),
            store=store,
            rank=env.rank,
            world_size=env.world_size,
            timeout=timeout,
            device_id=device if device.type == "cuda" else None,
        )
    except RuntimeError as error:
        deadline = time.monotonic() + STOP_S
        while not stopped() and time.monotonic() < deadline:
            time.sleep(FIRST_PAUSE_S)
        if stopped():  # rank 0, which serves the store, has exited
            raise StoppedBeforeTraining("stopped before the rendezvous was complete") from error
        raise RendezvousFailed(
            f"rank {env.rank}: rendezvous timeout: not all {env.world_size} ranks joined within {init_timeout_s} s",
            [_missing_ranks(store, env.world_size), str(error).splitlines()[0]],
        ) from error
    keep_groups_alive()
    yield RankGroup(env.rank, env.world_size, device, _connect_status_store(env, timeout))
    keep_groups_alive()  # including groups created in the meantime
    dist.destroy_process_group()


def enable_flight_recorder(environ: MutableMapping[str, str], run_dir: Path | None) -> None:
    """Enable NCCL's flight recorder in ranks that launch.sh, which sets the same variables, did not start: if a
    collective hangs, each rank dumps the most recent ones to logs/collectives_RANK in the run folder.

    Variables that `environ` already sets are left unchanged. torch 2.9 to 2.13 reads them when it creates a process
    group. torchtitan sets them at the same point (distributed/utils.py, init_distributed).
    """
    defaults = {
        "TORCH_FR_BUFFER_SIZE": "20000",  # number of collectives
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3",  # torch's default: the process exits after the dump
    }
    if run_dir is not None:
        logs = run_dir.absolute() / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        defaults["TORCH_FR_DUMP_TEMP_FILE"] = f"{logs}/collectives_"
    environ.update({name: value for name, value in defaults.items() if not environ.get(name)})


def wait_for_master(host: str, port: int, timeout_s: float, stopped: Callable[[], bool]) -> None:
    """Return when host:port accepts a connection or `stopped()` is true. Raises RendezvousFailed after timeout_s.

    Rank 0 does not wait: it, or torchrun on its node, serves this endpoint.
    """
    if cause := wait_until_port_answers(host, port, timeout_s, stopped):
        hint = "check that rank 0 is running and that the port is open between the nodes (jobctl preflight checks both)"
        raise RendezvousFailed(cause, hint=hint)


def _backend_names(device: torch.device) -> str:
    return "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"


def _connect_status_store(env: RankEnvironment, timeout: timedelta) -> Store | None:
    """Open a separate connection to the store, so that its operations do not queue behind those of training."""
    try:
        store = _connect_to_store(env, timeout, serves=False)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        print(f"warning: hung ranks cannot be identified: {reason}", file=sys.stderr, flush=True)
        return None
    store.set_timeout(timedelta(seconds=BOARD_TIMEOUT_S))
    return PrefixStore("board", store)


def _connect_to_store(env: RankEnvironment, timeout: timedelta, serves: bool) -> Store:
    """Connect to the key-value store. torchrun keeps its store across restarts, so each attempt has its own prefix."""
    store = TCPStore(env.master_addr, env.master_port, env.world_size, serves, timeout, wait_for_workers=False)
    return PrefixStore(f"jobc/{env.attempt or 0}.{env.torchelastic_restart_count or 0}", store)


def _wait_for_all(store: Store, env: RankEnvironment, timeout_s: float, stopped: Callable[[], bool]) -> None:
    """Wait for every rank and poll `stopped`, which torch would not. Raises RuntimeError after timeout_s."""
    deadline, pause_s = time.monotonic() + timeout_s, FIRST_PAUSE_S
    num_here = store.add("num_here", 1)
    while num_here < env.world_size:
        if stopped():
            raise StoppedBeforeTraining("stopped before the rendezvous was complete")
        if time.monotonic() > deadline:
            raise RuntimeError(f"{num_here} of {env.world_size} joined")
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        num_here = store.add("num_here", 0)


def _missing_ranks(store: Store, world_size: int) -> str:
    try:
        missing = [rank for rank in range(world_size) if not store.check([f"here/{rank}"])]
    except RuntimeError:
        return "the rendezvous store no longer responds"
    if not missing:
        return "all ranks joined the store, but not all could connect to each other"
    return f"missing: {format_ranks(missing)}"


def format_ranks(ranks: Sequence[int]) -> str:
    """Format ascending ranks: [0, 1, 2, 5] -> ranks 0-2, 5; [3] -> rank 3."""
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and rank == spans[-1][-1] + 1:
            spans[-1].append(rank)
        else:
            spans.append([rank])
    ranges = [f"{span[0]}-{span[-1]}" if len(span) > 1 else str(span[0]) for span in spans]
    shown = ", ".join(ranges[:20]) + (", …" if len(ranges) > 20 else "")
    return f"rank{'s' * (len(ranks) > 1)} {shown}"
