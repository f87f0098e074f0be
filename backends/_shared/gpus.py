"""Look up how many GPUs of a type one machine can have: the maximum, and the counts that clouds offer.

In:  a GPU type (`H100`) or a product name from a driver or label (`NVIDIA-H100-80GB-HBM3`), and a cloud's name as
     SkyPilot spells it.
Out: the maximum per machine in a cloud or at a site, or None if the type is unknown. Also the GPU counts that a cloud
     offers: () if it does not offer the type, and None if it allows any count or the type is unknown.
Sources, names: catalogs/v8/common/accelerators.csv of github.com/skypilot-org/skypilot-catalog, commit d4d53f0.
     aws: catalogs/v8/aws/vms.csv there (e385a0d: p3 to p6-b200; 00148f2: g4dn, g6e, g6f, gr6, g7e). These come only
     from "Accelerated computing" in Amazon EC2 instance types: B300, GB200, A10G, T4g, Trainium, Inferentia, and L4 and
     RTXPRO6000 with more than one GPU.
     azure: catalogs/v5/azure/vms.csv there (80b37e8); for H200, MI300X, GB200 and GB300, the families and
     AZURE_MISSING_GPU_COUNT in fetch_azure.py of SkyPilot 0089fca. Standard_ND48s_H100_v5 with 6 GPUs is omitted,
     because it has no price there.
     gcp: _ACC_INSTANCE_TYPE_DICTS and _NUM_ACC_TO_MAX_CPU_AND_MEMORY in gcp_catalog.py of SkyPilot 0.14.1.
     sites: 20 T4 in a Supermicro SYS-6049GP-TRT; 18 single-slot or 10 dual-slot cards in a SYS-322GB-NR; 32 GPUs in a
     node composed over PCIe (arXiv:2404.06467); 4 GH200 in a node of Alps (docs.cscs.ch/alps/hardware).
"""

from collections.abc import Mapping

from ...runtime.system.gpus import is_gpu_of_type

# GPU -> maximum number in one cloud machine.
GPUS: Mapping[str, int] = {
    **dict.fromkeys(("A10", "A10G", "A16", "A30", "A40", "A4000", "A5000", "A6000", "A800", "A100-80GB"), 8),
    **dict.fromkeys(("A100-80GB-SXM", "H100", "H100-SXM", "H100-NVL", "H100-NVLINK", "H100-MEGA", "H100-80GB"), 8),
    **dict.fromkeys(("H200", "H200-SXM", "NVIDIA-H200-NVL", "B200", "B300", "L4", "L40", "L40S"), 8),
    **dict.fromkeys(("RTX3060", "RTX3070", "RTX3080", "RTX3090", "RTX4060", "RTX4070", "RTX4090", "RTX5060"), 8),
    **dict.fromkeys(("RTX5070", "RTX5090", "RTX2000-Ada", "RTX4000-Ada", "RTX5880-Ada", "RTX6000", "RTX6000-Ada"), 8),
    **dict.fromkeys(("RTX6000Ada", "RTXA4000", "RTXA4500", "RTXA5000", "RTXA6000", "RTXPRO6000", "RTXPRO6000-WK"), 8),
    **dict.fromkeys(("RTXPRO6000S", "RTXPRO6000WS", "V100", "V100-32GB", "T4"), 8),
    **dict.fromkeys(("MI250", "MI300X", "MI325X", "MI350X"), 8),
    **dict.fromkeys(("GB200", "GB300", "K80", "M60", "P4", "P40", "P100"), 4),
    "T4g": 2, "GH200": 1,
    **dict.fromkeys(("A100", "Trainium", "Trainium2", "Inferentia"), 16),
}  # fmt: skip
_1_TO_4 = (1, 2, 4)
_1_TO_8 = (1, 2, 4, 8)
# Cloud -> GPU -> counts per machine. A cloud listed here offers no other types.
SOLD: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "aws": {
        **dict.fromkeys(("A100", "A100-80GB", "H200", "B200", "B300", "V100-32GB"), (8,)), "H100": (1, 8),
        **dict.fromkeys(("L4", "L40S", "A10G", "T4", "V100"), (1, 4, 8)), "RTXPRO6000": _1_TO_8, "T4g": (1, 2),
        "GB200": (4,), "Trainium": (1, 16), "Trainium2": (1, 16), "Inferentia": (1, 4, 16),
    },
    "gcp": {
        "A100": (*_1_TO_8, 16), **dict.fromkeys(("H100-MEGA", "H200", "B200"), (8,)),
        **dict.fromkeys(("A100-80GB", "L4", "H100", "RTXPRO6000", "V100"), _1_TO_8),
        **dict.fromkeys(("T4", "P4", "P100"), _1_TO_4),
    },
    "azure": {
        **dict.fromkeys(("A100", "H200", "MI300X", "V100-32GB"), (8,)), "A100-80GB": _1_TO_8, "H100": (1, 2, 8),
        **dict.fromkeys(("V100", "P100", "P40", "K80", "M60"), _1_TO_4), "T4": (1, 4), "A10": (1, 2),
        **dict.fromkeys(("GB200", "GB300"), (4,)),
    },
}  # fmt: skip
# Clouds that rent out single GPUs, or whose machines belong to different owners.
_ANY_COUNT = ("cudo", "fluidstack", "hyperbolic", "mithril", "primeintellect", "runpod", "shadeform", "vast", "vsphere")
USUAL_GPUS = 8  # the maximum on nearly all nodes
MOST_GPUS = 32  # the maximum for any type that is sold as cards: 32 in one node composed over PCIe
# GPU types sold only on boards with a fixed number of GPUs, so every machine has that number of them.
_BOARDS: Mapping[str, int] = {
    **dict.fromkeys(("B200", "B300", "MI300X", "MI325X", "MI350X"), 8),
    **dict.fromkeys(("GB200", "GB300", "GH200"), 4),
    "T4g": 2,
}


def gpu_spread_overrides(gpus: int, nodes: int, usual: int) -> str:
    """Return overrides that spread the same total number of GPUs over nodes with at most `usual` GPUs each."""
    per_node = next((n for n in (8, 6, 5, 4, 2) if n <= usual and gpus * nodes % n == 0), usual)
    return f"nodes={-(-gpus * nodes // per_node)} gpus={per_node}"


def max_gpus_in_cloud(gpu_type: str) -> int | None:
    name = _longest_known_name(gpu_type)
    return GPUS[name] if name else None


def max_gpus_at_site(gpu_type: str) -> int | None:
    """Return a board's size for a type sold on boards, None for an unknown type, or else MOST_GPUS."""
    name = _longest_known_name(gpu_type)
    return _BOARDS.get(name, MOST_GPUS) if name else None


def max_gpus_per_machine(cloud: str, gpu_type: str) -> int | None:
    """Return the maximum in a cloud ("" for any). A cloud that allows any number is treated as a site."""
    return max_gpus_at_site(gpu_type) if cloud in _ANY_COUNT else max_gpus_in_cloud(gpu_type)


def offered_gpu_counts(cloud: str, gpu_type: str) -> tuple[int, ...] | None:
    """Return the counts per machine in ascending order: () if the cloud does not offer the type, None for any count.

    For clouds not in SOLD, they are the powers of 2 up to the maximum in any cloud.
    """
    name = _longest_known_name(gpu_type)
    if not name or cloud in _ANY_COUNT:
        return None
    if cloud in SOLD:
        return SOLD[cloud].get(name, ())
    return tuple(2**i for i in range(5) if 2**i <= GPUS[name])


def clouds_offering(gpu_type: str) -> list[str]:
    """Return the clouds in SOLD whose machines have GPUs of that type."""
    return [cloud for cloud in SOLD if offered_gpu_counts(cloud, gpu_type)]


def _longest_known_name(gpu_type: str) -> str:
    """Return the longest matching name in GPUS, such as A100-80GB rather than A100, or "" if none matches."""
    return max((name for name in GPUS if is_gpu_of_type(gpu_type, name)), key=len, default="")
