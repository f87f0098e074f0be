"""How many GPUs of a type a machine has: the most, and the numbers that a cloud sells.

In   a type, `H100`, or a product's name as drivers and labels have it, `NVIDIA-H100-80GB-HBM3`; a cloud, as SkyPilot
     calls it
Out  the most of them in a machine of a cloud, and in one of a site; None for a type that is not known. The numbers of
     them that machines of that cloud have, () where any may be
Sources: docs.skypilot.co/en/latest/compute/gpus.html and `sky gpus list` of SkyPilot 0.14.1, which asks for GPUs by
these names; NVIDIA DGX-2 and HGX A100 16-GPU; AMD MI250, of which each of two dies counts as a GPU; servers for ten
cards of two slots, such as Supermicro SYS-420GP-TNR. Of gcp: _ACC_INSTANCE_TYPE_DICTS in sky/catalog/gcp_catalog.py
and "GPU machine types" of Compute Engine; of aws: "Accelerated computing" in Amazon EC2 instance types (p3 to p6, g4dn
to g7e, g5g); of azure: "GPU accelerated" sizes of virtual machines (NC, ND, NV).
"""

from __future__ import annotations

from collections.abc import Mapping

from ...trainer.rt.gpu_names import is_of_type

# GPU -> the most of them that a machine of a cloud has.
GPUS: Mapping[str, int] = {
    **dict.fromkeys(("A10", "A10G", "A40", "A100-80GB", "A100-80GB-SXM", "H100", "H100-SXM", "H100-NVLINK"), 8),
    **dict.fromkeys(("H100-MEGA", "H100-80GB", "H200", "H200-SXM", "B200", "B300", "L4", "L40", "L40S"), 8),
    **dict.fromkeys(("RTX3090", "RTX4090", "RTX5090", "RTX6000-Ada", "RTXA4000", "RTXA5000", "RTXA6000"), 8),
    **dict.fromkeys(("RTXPRO6000", "V100", "V100-32GB", "T4", "P100", "MI250", "MI300X", "MI325X", "MI350X"), 8),
    **dict.fromkeys(("GB200", "GB300", "P4", "M60"), 4),
    **dict.fromkeys(("GH200", "T4g"), 2),
    **dict.fromkeys(("A100", "K80", "Trainium", "Trainium2", "Inferentia"), 16),
}
_1_TO_8 = (1, 2, 4, 8)
# Cloud -> GPU -> the numbers of them that its machines have.
SOLD: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "aws": {
        **dict.fromkeys(("A100", "A100-80GB", "H200", "B200", "B300", "V100-32GB"), (8,)), "H100": (1, 8),
        **dict.fromkeys(("L4", "L40S", "A10G", "T4", "V100"), (1, 4, 8)), "RTXPRO6000": _1_TO_8, "T4g": (1, 2),
        "GB200": (4,), "K80": (1, 8, 16), "M60": (1, 2, 4), "Trainium": (1, 16), "Trainium2": (1, 16),
        "Inferentia": (1, 4, 16),
    },
    "gcp": {
        "A100": (*_1_TO_8, 16), **dict.fromkeys(("H100-MEGA", "H200", "B200", "B300"), (8,)), "GB200": (4,),
        **dict.fromkeys(("A100-80GB", "L4", "H100", "RTXPRO6000", "V100", "K80"), _1_TO_8),
        **dict.fromkeys(("T4", "P4", "P100"), (1, 2, 4)),
    },
    "azure": {
        **dict.fromkeys(("A100", "H200", "MI300X", "V100-32GB"), (8,)), "A100-80GB": _1_TO_8, "H100": (1, 2, 8),
        **dict.fromkeys(("V100", "P100", "K80"), (1, 2, 4)), "T4": (1, 4), "A10": (1, 2), "GB200": (4,),
    },
}  # fmt: skip
# Clouds that rent GPUs one by one, or whose machines are each somebody's own.
_ANY_NUMBER = (
    "runpod",
    "vast",
    "fluidstack",
    "hyperbolic",
    "shadeform",
    "primeintellect",
    "cudo",
    "mithril",
    "vsphere",
)
MOST_GPUS = 16  # of any type: a2-megagpu-16g, DGX-2
_CARDS = 10  # of two slots, in one server; boards of other kinds are made for the 8 that clouds have
_DENSER = ("V100", "A100", "MI250", "T4", "P4", "L4", "A10", "A10G")  # HGX boards in pairs, two dies; cards of one slot


def most_in_cloud(gpu_type: str) -> int | None:
    name = _known(gpu_type)
    return GPUS[name] if name else None


def most_at_site(gpu_type: str) -> int | None:
    """Of machines that somebody may have bought: a cloud's, or a larger one."""
    name = _known(gpu_type)
    if not name:
        return None
    denser = any(is_of_type(name, kind) for kind in _DENSER)
    return MOST_GPUS if denser else _CARDS if GPUS[name] == 8 else GPUS[name]


def sold(cloud: str, gpu_type: str) -> tuple[int, ...]:
    """The numbers of GPUs that machines of a cloud have, rising; () where any may be, or nothing is known of the type.

    A cloud whose machines are not listed has 1, 2, 4 and so on, up to the most of any cloud.
    """
    name = _known(gpu_type)
    if not name or cloud in _ANY_NUMBER:
        return ()
    listed = SOLD.get(cloud, {}).get(name)
    return listed or tuple(2**i for i in range(5) if 2**i <= GPUS[name])


def _known(gpu_type: str) -> str:
    """The name that says most of it: A100-80GB rather than A100; "" for none."""
    return max((name for name in GPUS if is_of_type(gpu_type, name)), key=len, default="")
