"""Checks that Kubernetes object names are valid, shared by several rules.

Source: Kubernetes "Object names and IDs".
"""

import re

from ..._shared.kubernetes_formats import DNS_NAME

LONGEST_NAME = 253


def is_valid_object_name(text: str) -> bool:
    return bool(re.fullmatch(DNS_NAME, text)) and len(text) <= LONGEST_NAME
