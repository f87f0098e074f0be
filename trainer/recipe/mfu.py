"""Compute MFU against the peak of known GPUs, and percentiles of step times."""

from collections.abc import Sequence

from ..config.schema import GptConfig, MlpConfig

# Dense bf16 FLOP/s by words in the device name; the first match wins. Sources: data sheets of NVIDIA (A100, A10, A30,
# L4, L40S, H100, H200, B200, GB200; values "with sparsity" halved) and AMD (MI250X per die, MI300X, MI325X, MI355X).
# The values are the same as in torchtitan's tools/utils.py for the devices listed there.
PEAK_FLOPS: tuple[tuple[str, float], ...] = (
    ("GB200", 2.5e15),
    ("B200", 2.25e15),
    ("H200 NVL", 835e12),
    ("H200", 989e12),
    ("GH200", 989e12),
    ("H100 NVL", 835e12),
    ("H100 PCIe", 756e12),
    ("H100", 989e12),
    ("H800", 989e12),
    ("A100", 312e12),
    ("A800", 312e12),
    ("A30", 165e12),
    ("A10G", 70e12),
    ("A10", 125e12),
    ("L40S", 362e12),
    ("L4", 121e12),
    ("MI355X", 2.5e15),
    ("MI325X", 1307e12),
    ("MI300X", 1307e12),
    ("MI250X", 191.5e12),
)


def peak_flops(device_name: str) -> float | None:
    """Return the dense bf16 FLOP/s of one GPU, or None for an unknown GPU or a CPU."""
    words = device_name.replace("-", " ").split()
    return next((peak for name, peak in PEAK_FLOPS if set(name.split()) <= set(words)), None)


def flops_per_sample(model: object, num_parameters: int) -> float | None:
    """Return the FLOPs of forward and backward for one sample, or None for a custom model.

    They are 6 per parameter and token, plus 12 x layers x width x context per token for attention (Kaplan et al. 2020).
    As in nanoGPT, position embeddings are not counted, and neither is recomputation (activation checkpointing).
    """
    if isinstance(model, GptConfig):
        parameters = num_parameters - model.context * model.width
        return model.context * (6 * parameters + 12.0 * model.layers * model.width * model.context)
    return 6.0 * num_parameters if isinstance(model, MlpConfig) else None


def percentile(sorted_values: Sequence[float], percent: int) -> float:
    """Return the value that `percent` % of the values do not exceed (nearest-rank method)."""
    return sorted_values[max(0, -(-percent * len(sorted_values) // 100) - 1)]
