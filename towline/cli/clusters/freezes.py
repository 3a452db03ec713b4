"""Freezes of clusters through cluster groups, in words."""

from towline.cli.clusters.generated import ClusterFreeze


def describe_freeze(freeze: ClusterFreeze) -> str:
    """Says who froze a cluster, since when, and why. Without an age: it changes with every look."""
    group = freeze["group"]
    what = f"the cluster group {group}" if group else "a cluster group of this cluster"
    since = f" at {freeze['since'][:19]}Z" if freeze["since"] else ""
    reason = f": {freeze['reason']}" if freeze["reason"] else ""
    return f"{freeze['by']} froze {what}{since}{reason}"
