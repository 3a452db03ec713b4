"""Selection of a chart version."""

import pytest

from core.errors import Invalid
from gitcache.charts.source import newest

OFFERED = ["1.0.0", "1.2.0", "1.10.0", "2.0.0", "2.1.0-rc.1", "v0.9.0", "odd"]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("", "2.0.0"),
        ("*", "2.0.0"),
        ("^1.0", "1.10.0"),
        ("~1.2", "1.2.0"),
        (">=1.0, <1.5", "1.2.0"),
        ("1.x || 0.9.x", "1.10.0"),
        ("0.9.0", "v0.9.0"),
        ("3.x", None),
    ],
)
def test_a_range_means_its_newest_version(wanted: str, found: str | None) -> None:
    assert newest(OFFERED, wanted) == found


@pytest.mark.parametrize("odd", ["latest", "1.2.3.4.5", "$(id)"])
def test_an_invalid_version_range_is_refused(odd: str) -> None:
    with pytest.raises(Invalid, match="not a version or version range"):
        newest(OFFERED, odd)
