"""The text of a user's module `broken`, whose models, data sets, losses and recipes each have one mistake."""

from __future__ import annotations

BROKEN = """
import builtins
import torch
from jobc_trainer.recipe import Recipe

class Shaped(torch.nn.Linear):
    def __init__(self, how):
        super().__init__(32, 4)
        self.how = how

    def forward(self, x):
        y = super().forward(x)
        return {"mapping": {"logits": y}, "scalar": y.sum(), "flat": y[:, 0]}[self.how]

class Scaled(torch.nn.Linear):
    def __init__(self):
        super().__init__(32, 4)
        self.scale = torch.nn.Parameter(torch.tensor(1.0))

class Raises:
    def __init__(self, error):
        self.error = getattr(builtins, error)

    def __len__(self):
        return 100

    def __getitem__(self, index):
        raise self.error("shard_17")

def collate(samples):
    raise ValueError("ragged")

class NoSource(Recipe):
    def build_data(self):
        return [1, 2, 3]

class NoModel(Recipe):
    def build_model(self, source):
        pass

class NoOptimizer(Recipe):
    def build_optimizer(self, model):
        pass

class WrongOptimizer(Recipe):
    def build_optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=-1)

class OptimizerOfNothing(Recipe):
    def build_optimizer(self, model):
        return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)

class OptimizerWithoutRate(Recipe):
    def build_optimizer(self, model):
        made = torch.optim.SGD(model.parameters(), lr=0.1)
        made.param_groups[0]["lr"] = None  # as one has that finds its own
        return made

class AnotherRate(Recipe):
    def build_optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=0.03)

class Scheduled(Recipe):
    def build_optimizer(self, model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)
        return optimizer

class ByHand(Recipe):
    def build_optimizer(self, model):
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        return self.optimizer

    def loss(self, model, batch):
        self.optimizer.param_groups[0]["lr"] *= 0.5
        return super().loss(model, batch)

class Once(torch.autograd.Function):
    @staticmethod
    def forward(context, tensor):
        return tensor.clone()

    @staticmethod
    def backward(context, gradient):
        raise ValueError("no second derivative")

class BackwardRaises(torch.nn.Linear):
    def forward(self, points):
        return Once.apply(super().forward(points))

class Cached(torch.nn.Linear):
    '''A block that remembers its inputs, as one with a cache of keys and values does.'''

    def forward(self, points):
        self.cache = torch.cat([self.cache, points]) if hasattr(self, "cache") else points
        return super().forward(self.cache).relu()[-len(points):]

class WithCache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Cached(32, 4)])

    def forward(self, points):
        return self.blocks[0](points)

class Streamed(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter([])

class OptimizerOfOne(Recipe):
    def build_optimizer(self, model):
        return torch.optim.SGD(list(model.parameters())[:1], lr=0.1)

class NotMade(Recipe):
    def __init__(self, config):
        raise ValueError("no licence")

class CountInWords(Recipe):
    def count(self, batch):
        return "many"

class LossCountsInWords(Recipe):
    def count(self, batch):
        return None

    def loss(self, model, batch):
        return super().loss(model, batch)[0], "many"

class NumberAsScore(Recipe):
    score = 5

class TwoMeasured(Recipe):
    def measure(self, model, batch):
        return super().measure(model, batch)[:2]

class MeasureRaises(Recipe):
    def measure(self, model, batch):
        raise KeyError("caption")

class NoFlops(Recipe):
    def flops_per_sample(self, num_parameters):
        return 0

class EndlessFlops(Recipe):
    def flops_per_sample(self, num_parameters):
        return 1e300 * 1e300

class HugeFlops(Recipe):
    def flops_per_sample(self, num_parameters):
        return 10 ** 400

class WordOfFlops(Recipe):
    def flops_per_sample(self, num_parameters):
        return "many"

class FlopsRaise(Recipe):
    def flops_per_sample(self, num_parameters):
        return 6 * num_parameters * self.context

NUMBER = 7

class UnusedLater(torch.nn.Linear):
    def __init__(self):
        super().__init__(32, 4)
        self.spare, self.calls = torch.nn.Linear(32, 4), 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x) + (self.spare(x) if self.calls < 3 else 0)

class OneNumber(Recipe):
    def loss(self, model, batch):
        loss, count = super().loss(model, batch)
        return loss.reshape(1), count


def flat(logits, targets):
    return torch.nn.functional.cross_entropy(logits, targets, reduction="none").repeat(2)

class NoCount(Recipe):
    def count(self, batch):
        return len(batch.items_of)

class TwoRates(Recipe):
    def build_optimizer(self, model):
        first, *others = model.parameters()
        return torch.optim.SGD([{"params": [first], "lr": 0.1}, {"params": others, "lr": 0.01}])

class Unused(torch.nn.Linear):
    def __init__(self):
        super().__init__(32, 4)
        self.spare = torch.nn.Linear(3, 2)

class Column(torch.nn.Linear):
    def __init__(self):
        super().__init__(32, 1)

    def forward(self, x):
        return super().forward(x) + 0.0

class OfNumbers:
    def __len__(self):
        return 100

    def __getitem__(self, index):
        return torch.ones(32), torch.tensor(float(index))
"""
