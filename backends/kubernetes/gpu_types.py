"""Map `gpu_type` to values of a node label. A node must have one of these values.

In:  the plan and the options.
Out: the label and its values; no values if no node can match, which JC4521 reports.
No tool labels a node `H100`: NVIDIA's discovery writes the product name, and AMD and GKE use other names.
Therefore, H100 matches every product of that type, unless `backend.gpu_labels` defines H100 for this cluster. (On
hosts, runtime/system/gpus.py compares driver names in the same way.) Nodes with shared GPUs or MIG slices have other
names (…-SHARED, …-MIG-1g.5gb) and do not match, because `gpus` counts whole GPUs.

Source: nvidia.com/gpu.product: GPU feature discovery 0.20 (internal/lm/resource.go: the driver's name with dashes for
spaces); names from NVIDIA/open-gpu-kernel-modules 595.45.04, README "Compatible GPUs", and V100 as it appears on nodes.
amd.com/gpu.product-name: k8s-node-labeller of ROCm/k8s-device-plugin 1.31 (underscores for spaces, no parentheses);
names from the card's own memory (…_OAM), else from data/amdgpu.ids of libdrm. cloud.google.com/gke-accelerator:
accelerator types of Compute Engine.
"""

import re
from collections.abc import Mapping

from ...compiler.plan.launch_plan import LaunchPlan
from ...runtime.system.gpus import is_gpu_of_type
from .options import KubernetesOptions

DISCOVERED = {"nvidia.com/gpu": "nvidia.com/gpu.product", "amd.com/gpu": "amd.com/gpu.product-name"}  # by resource
PRODUCTS: Mapping[str, str] = {
    "nvidia.com/gpu.product": """
        Tesla-V100-PCIE-16GB Tesla-V100-PCIE-32GB Tesla-V100-SXM2-16GB Tesla-V100-SXM2-32GB Tesla-V100-SXM3-32GB
        Tesla-T4 Quadro-RTX-6000 Quadro-RTX-8000
        NVIDIA-A100-PCIE-40GB NVIDIA-A100-80GB-PCIe NVIDIA-A100-SXM4-40GB NVIDIA-A100-SXM4-80GB NVIDIA-A100-SXM-64GB
        NVIDIA-A800-40GB-Active NVIDIA-A800-80GB-PCIe NVIDIA-A800-80GB-PCIe-LC NVIDIA-A800-SXM4-40GB
        NVIDIA-A800-SXM4-80GB NVIDIA-A2 NVIDIA-A10 NVIDIA-A10G NVIDIA-A10M NVIDIA-A16 NVIDIA-A30 NVIDIA-A40
        NVIDIA-RTX-A4000 NVIDIA-RTX-A4500 NVIDIA-RTX-A5000 NVIDIA-RTX-A5500 NVIDIA-RTX-A6000
        NVIDIA-L2 NVIDIA-L4 NVIDIA-L20 NVIDIA-L40 NVIDIA-L40S NVIDIA-RTX-4000-Ada-Generation
        NVIDIA-RTX-4500-Ada-Generation NVIDIA-RTX-5000-Ada-Generation NVIDIA-RTX-5880-Ada-Generation
        NVIDIA-RTX-6000-Ada-Generation
        NVIDIA-H100 NVIDIA-H100-80GB-HBM3 NVIDIA-H100-NVL NVIDIA-H100-PCIe NVIDIA-H800 NVIDIA-H800-NVL NVIDIA-H800-PCIe
        NVIDIA-H20 NVIDIA-H20-NVL16 NVIDIA-H20-3e NVIDIA-H200 NVIDIA-H200-NVL
        NVIDIA-GH200-120GB NVIDIA-GH200-144G-HBM3e NVIDIA-GH200-480GB
        NVIDIA-B200 NVIDIA-B300-SXM6-AC NVIDIA-GB200 NVIDIA-GB300 NVIDIA-GB10
        NVIDIA-RTX-PRO-4000-Blackwell NVIDIA-RTX-PRO-4500-Blackwell NVIDIA-RTX-PRO-5000-Blackwell
        NVIDIA-RTX-PRO-5000-72GB-Blackwell NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition
        NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition
        NVIDIA-GeForce-RTX-3080 NVIDIA-GeForce-RTX-3080-Ti NVIDIA-GeForce-RTX-3090 NVIDIA-GeForce-RTX-3090-Ti
        NVIDIA-GeForce-RTX-4080 NVIDIA-GeForce-RTX-4080-SUPER NVIDIA-GeForce-RTX-4090 NVIDIA-GeForce-RTX-4090-D
        NVIDIA-GeForce-RTX-5080 NVIDIA-GeForce-RTX-5090 NVIDIA-GeForce-RTX-5090-D""",
    "amd.com/gpu.product-name": """
        AMD_Instinct_MI100 AMD_Instinct_MI210 Instinct_MI210 AMD_Instinct_MI250X AMD_Instinct_MI250 AMD_Instinct_MI300A
        AMD_Instinct_MI300X AMD_Instinct_MI300X_HF AMD_Instinct_MI300X_OAM AMD_Instinct_MI300X_VF AMD_Instinct_MI308X
        AMD_Instinct_MI308X_HF AMD_Instinct_MI325X AMD_Instinct_MI325_OAM AMD_Instinct_MI350X AMD_Instinct_MI350X_VF
        AMD_Instinct_MI355X AMD_Instinct_MI355X_VF AMD_Instinct_MI355_OAM""",
    "cloud.google.com/gke-accelerator": """
        nvidia-tesla-p4 nvidia-tesla-p100 nvidia-tesla-t4 nvidia-tesla-v100 nvidia-l4 nvidia-tesla-a100 nvidia-a100-80gb
        nvidia-h100-80gb nvidia-h100-mega-80gb nvidia-h200-141gb nvidia-b200 nvidia-gb200 nvidia-rtx-pro-6000""",
}
# Products newer than those above must be given in full, exactly as in the label.
WHOLE = {
    "nvidia.com/gpu.product": r"(NVIDIA|Tesla|Quadro)-.+",
    "amd.com/gpu.product-name": r"(AMD|Instinct|Radeon)_.+",
    "cloud.google.com/gke-accelerator": r"nvidia-.+",
}


def gpu_label_name(options: KubernetesOptions) -> str:
    return options.gpu_label or DISCOVERED[options.gpu_resource]


def gpu_label_values(plan: LaunchPlan, options: KubernetesOptions) -> tuple[str, ...]:
    """Return the label values for `gpu_type`, or () if it is unset or unknown (JC4521). With a site's own label, the
    value is the type itself.
    """
    gpu_type, key = plan.resources.gpu_type, gpu_label_name(options)
    if gpu_type is None:
        return ()
    if gpu_type in options.gpu_labels:
        return tuple(options.gpu_labels[gpu_type])
    if key not in PRODUCTS or gpu_type in PRODUCTS[key].split():
        return (gpu_type,)
    products = tuple(product for product in PRODUCTS[key].split() if is_gpu_of_type(product, gpu_type))
    return products or ((gpu_type,) if re.fullmatch(WHOLE[key], gpu_type) else ())
