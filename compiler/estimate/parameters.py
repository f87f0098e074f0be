"""Count a built-in model's parameters and activations from train.json, without torch, and what FSDP gathers of them.

Shapes: B samples, T context, C width, V vocabulary. Dropout masks take one byte per number, as on GPUs. Attention
stores no masks, because its kernels recompute them. tests/trainer/models/test_estimate.py compares the counts with the
models.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from ...runtime.system.frozen_dataclass import dataclass
from ..plan.launch_plan import LaunchPlan
from ..spec.job_spec import JobSpec

BYTES = 256  # vocabulary size of byte streams
DIGITS, PIXELS = 10, 64

Tree = int | tuple[tuple[int, "Tree"], ...]  # see Modules


@dataclass(frozen=True)
class ParametersByModule:
    """Parameter counts of a built-in model, for the modules that FSDP wraps.

    block: number of parameters in the largest block.
    kind: the blocks' class.
    rest: number of parameters outside all blocks.
    tree: (count, content) of each submodule. The content of a module without submodules is its number of parameters.
    """

    block: int
    kind: str
    rest: int
    tree: Tree


@dataclass(frozen=True)
class ModelSize:
    """A model's size.

    parameters: number of parameters in the whole model.
    largest_unit: number of parameters in the largest part that FSDP or ZeRO 3 gathers at once, or None if unknown.
    saved_per_sample: bytes that autograd keeps per sample, or None if unknown.
    tokens_per_sample: 1 if a sample has one target.
    modules: None if the model is not built in.
    """

    parameters: int
    largest_unit: int | None
    saved_per_sample: int | None
    tokens_per_sample: int
    modules: ParametersByModule | None = None


def job_model_size(spec: JobSpec, plan: LaunchPlan) -> ModelSize | None:
    """Return the model size that `estimate` sets, or that of the built-in model, or None for a recipe or a program."""
    estimate = spec.estimate
    if estimate.parameters is not None:
        n = round(estimate.parameters)
        return ModelSize(n, estimate.largest_unit, None, estimate.tokens_per_sample or 1)
    return model_size_from_train_json(plan.train) if plan.uses_trainer and spec.recipe is None else None


def model_size_from_train_json(train: Mapping[str, Any]) -> ModelSize | None:
    """Return the size of the model in a train.json, or None if the model is not built in."""
    model = train["model"]
    kind = model.get("kind")  # a `_target_` has no kind
    if kind == "gpt":
        return _gpt_size(model, int(train["data"].get("vocabulary", BYTES)), train["loop"])
    if kind == "mlp":
        return _mlp_size(model)
    return None


def _gpt_size(model: Mapping[str, Any], vocabulary: int, loop: Mapping[str, Any]) -> ModelSize:
    """Return the size of trainer/models/gpt.py: blocks of 12 C^2 + 2 C, tied embeddings, learned positions, a norm."""
    width, context, layers = model["width"], model["context"], model["layers"]
    block = 12 * width * width + 2 * width
    ends = (vocabulary + context) * width + width
    low = 4 if loop["precision"] == "fp32" else 2  # bytes of a matrix product's inputs and outputs
    # Per token and block, in units of C: the stream twice (each norm keeps its input); the outputs of both norms;
    # q, k, v; the attention's output; the feed-forward's two arrays of 4 C; both masks. Plus statistics of norms
    # and softmax.
    mask = 1 if model["dropout"] else 0
    in_block = (4 * 2 + low * (2 + 3 + 1 + 4 + 4) + 2 * mask) * width + 4 * (4 + model["heads"])
    # The mask after the embeddings; the last norm and the head; log-probabilities for the loss; the IDs of the
    # token and of its target.
    at_ends = (mask + 4 + low) * width + 4 * vocabulary + 4 * 2 + 8 * 2
    in_blocks, every = layers * in_block, loop["activation_checkpointing"]
    if every:  # a recomputed block keeps only its input, and only one block at a time keeps the rest
        again = -(-layers // every)
        in_blocks = (layers - again) * in_block + again * 4 * width + in_block
    matrices = tuple(((1, width), (1, tuple((1, times * width * width) for times in of))) for of in ((3, 1), (4, 4)))
    in_tree = (1, vocabulary * width), (1, context * width), (1, ((layers, matrices[0] + matrices[1]),)), (1, width)
    modules = ParametersByModule(block, "Block", ends, in_tree)
    return ModelSize(block * layers + ends, max(block, ends), context * (in_blocks + at_ends), context, modules)


def _mlp_size(model: Mapping[str, Any]) -> ModelSize:
    """Return the size of trainer/models/mlp.py. A ReLU keeps its output, which is also the next layer's input."""
    widths = [PIXELS, *[model["hidden"]] * model["layers"], DIGITS]
    layers = [i * o + o for i, o in pairwise(widths)]
    modules = ParametersByModule(max(layers), "Linear", 0, ((1, tuple((1, layer) for layer in layers)),))
    return ModelSize(sum(layers), max(layers), 4 * sum(widths), 1, modules)


def gathered_parameters(parallel: Mapping[str, Any], size: ModelSize) -> int | None:
    """Return how many parameters FSDP gathers at once, or None if the largest unit is unknown.

    A unit is gathered while it runs, and the next one is prefetched. Parameters outside all units belong to the root:
    trainer/parallel/fsdp.py keeps them from the forward pass to the end of the backward pass. Other programs use
    accelerate 1.15.0. Source: torch 2.13, torch.distributed.fsdp.fully_shard. parallel: from train.json
    """
    n, policy = size.parameters, parallel["auto_wrap_policy"]
    is_whole = policy == "NO_WRAP" or (policy == "SIZE_BASED_WRAP" and n < parallel["min_num_params"])
    if is_whole or not parallel["reshard_after_forward"]:
        return n
    if size.modules is None:
        return None if size.largest_unit is None else min(2 * size.largest_unit, n)
    unit, unwrapped = size.modules.block, size.modules.rest
    if policy == "SIZE_BASED_WRAP":
        unit, unwrapped = parameters_wrapped_by_size(size.modules.tree, parallel["min_num_params"])
    elif {*parallel["transformer_layer_cls_to_wrap"]} - {size.modules.kind}:
        return None
    return min(2 * unit + unwrapped, n)


def parameters_wrapped_by_size(module: Tree, least: int) -> tuple[int, int]:
    """Return the number of parameters in the largest unit, and the number outside all units, for wrapping by size.

    least: a module is a unit if it has at least this many parameters that are not in a unit inside it.
    """
    if isinstance(module, int):
        return 0, module
    largest = unwrapped = 0
    for count, child in module:
        inside, remaining = parameters_wrapped_by_size(child, least)
        is_unit = remaining >= least
        largest = max(largest, inside, remaining if is_unit else 0)
        unwrapped += 0 if is_unit else count * remaining
    return largest, unwrapped
