"""Commands print numbers of bytes."""

import pytest

from towline.cli.shell.output import age_column, bytes_column


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (None, ""),
        (0.0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (26.1 * 2**20, "26 MiB"),
        (3 * 2**30, "3.0 GiB"),
    ],
)
def test_bytes_are_shown_in_their_largest_unit(count: float | None, shown: str) -> None:
    assert bytes_column("SIZE", "size").cell({"size": count}) == shown


def test_what_has_not_happened_has_no_age() -> None:
    """An agent was never seen; a group that is not frozen has no such time."""
    assert age_column("LAST SEEN", "pingedAt").cell({"pingedAt": None}) == "never"
    assert age_column("SINCE", "frozenAt", missing="").cell({"frozenAt": None}) == ""
    assert age_column("SINCE", "frozenAt", missing="").cell({"frozenAt": "2020-01-01T00:00:00Z"})
