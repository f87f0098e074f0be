"""Average a gradient with MPI."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
gradient = np.full(4, float(comm.Get_rank()))
total = np.empty_like(gradient)
comm.Allreduce(gradient, total, op=MPI.SUM)
if comm.Get_rank() == 0:
    np.save("mean.npy", total / comm.Get_size())
    print(f"mean over {comm.Get_size()} ranks: {total[0] / comm.Get_size()}")
