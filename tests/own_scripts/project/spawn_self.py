# Starts a process for each device by itself, with a port of its own.
import multiprocessing as mp
import os
from multiprocessing.connection import Client, Listener


def main_worker(rank, world_size, queue):
    os.environ.update(MASTER_ADDR="localhost", RANK=str(rank), WORLD_SIZE=str(world_size))
    if rank == 0:
        with Listener((os.environ["MASTER_ADDR"], 0)) as listener:
            queue.put(listener.address[1])
            with listener.accept() as peer:
                print(f"rank 0 got {peer.recv()} of {world_size}", flush=True)
    else:
        with Client((os.environ["MASTER_ADDR"], queue.get(timeout=60))) as peer:
            peer.send(f"rank {rank}")


if __name__ == "__main__":
    context = mp.get_context("spawn")
    ports = context.Queue()
    workers = [context.Process(target=main_worker, args=(rank, 2, ports)) for rank in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not any(worker.exitcode for worker in workers)
