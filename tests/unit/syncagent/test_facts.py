"""Facts read from a cluster's own figures."""

import pytest

from core.spec.facts import DeprecatedApi
from syncagent.kube.facts import deprecated_in, quantity

METRICS = b"""
# HELP apiserver_requested_deprecated_apis Gauge of deprecated APIs that have been requested
apiserver_requested_deprecated_apis{group="batch",removed_release="1.25",resource="cronjobs",subresource="",version="v1beta1"} 1
apiserver_requested_deprecated_apis{group="policy",removed_release="1.25",resource="pdbs",subresource="",version="v1beta1"} 0
apiserver_request_total{group="batch",resource="cronjobs"} 1
"""  # noqa: E501
UNITS = {"": 1.0, "Ki": 1024.0, "Mi": 1024.0**2, "G": 1e9}


def test_deprecated_apis_in_use_are_named() -> None:
    """Only what was asked for, with the release that is without it."""
    assert list(deprecated_in(METRICS)) == [DeprecatedApi("batch", "v1beta1", "cronjobs", "1.25")]


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [
        ("128Mi", 128 << 20),
        ("2G", 2_000_000_000),
        ("7", 7),
        ("1.5Ki", 1536),
        ("odd", 0),
        ("3Qi", 0),
        (None, 0),
    ],
)
def test_quantities(text: object, bytes_: int) -> None:
    """In whichever unit; what is no quantity counts as nothing."""
    assert quantity(text, UNITS) == bytes_
