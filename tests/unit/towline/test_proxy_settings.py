"""The proxy's group of `towline serve`'s settings, and secrets that are not there."""

from pathlib import Path

import pytest

from core.errors import Invalid
from towline.settings import load


def test_limits_of_the_proxy_can_be_set(tmp_path: Path) -> None:
    """From the file and from the environment; what is not named keeps its default."""
    config = tmp_path / "towline.toml"
    config.write_text("[proxy.streams]\nper_agent = 7\n")
    found = load({}, config, {"TOWLINE_PROXY__TIMEOUTS__GRACE": "3.5"}).proxy
    assert (found.streams.per_agent, found.streams.per_process) == (7, 20_000)
    assert found.timeouts.grace == 3.5


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("TOWLINE_PROXY__STREAMS__PER_AGNT", "7", "proxy.streams.per_agnt"),
        ("TOWLINE_PROXY__TIMEOUTS__RECHECK", "0", "timeouts.recheck must be above 0"),
        ("TOWLINE_PROXY__HEAD__SIZE", "big", "proxy.head.size"),
    ],
)
def test_wrong_limits_of_the_proxy_are_named(variable: str, value: str, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        load({}, environ={variable: value})


def test_a_secret_file_that_is_absent_is_named(tmp_path: Path) -> None:
    """The variable and the path, in one sentence."""
    absent = tmp_path / "absent"
    with pytest.raises(Invalid, match=f"TOWLINE_DATABASE_FILE: cannot read {absent}: No such"):
        load({}, environ={"TOWLINE_DATABASE_FILE": str(absent)})
