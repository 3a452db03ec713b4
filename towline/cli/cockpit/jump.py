"""Targets of `:`, in the form of k9s: a service, or a kind of objects in a cluster."""

from typing import NamedTuple

from core.errors import Invalid

HINT = "CLUSTER/NAME of a service, or KIND [NAMESPACE] [@CLUSTER]"


class KindTarget(NamedTuple):
    """Objects of a kind; an empty namespace stands for all."""

    kind: str
    namespace: str
    cluster: str


def parse_kind_target(text: str, cluster: str | None) -> KindTarget:
    """Reads `pods`, `pods shop`, `pods @prod-eu` or `pods shop @prod-eu`.

    `cluster` is the default. Invalid: the text has another form, or lacks a cluster.
    """
    words = text.split()
    clusters = [word[1:] for word in words if word.startswith("@")]
    others = [word for word in words if not word.startswith("@")]
    if len(clusters) > 1 or not 1 <= len(others) <= 2:
        raise Invalid(f"{text!r} is not {HINT}")
    handle = clusters[0] if clusters else cluster
    if not handle:
        raise Invalid(f"name a cluster: {others[0]} @CLUSTER")
    return KindTarget(others[0], others[1] if len(others) == 2 else "", handle)
