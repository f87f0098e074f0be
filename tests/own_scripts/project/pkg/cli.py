import multiprocessing
import sys

from .model import NAME, square

COMMANDS = {}


def command(function):  # as click and typer register theirs
    COMMANDS[function.__name__.replace("_", "-")] = function
    return function


@command
def train_model(*options):
    with multiprocessing.get_context("spawn").Pool(2) as workers:  # as of a data loader
        print("training", NAME, "with", *options, sum(workers.map(square, range(4))), flush=True)


if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
