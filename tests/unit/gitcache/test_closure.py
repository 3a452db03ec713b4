"""Symbolic links, resolved among the files of a commit."""

import pytest

from core.errors import Invalid
from gitcache.domain.symlinks import resolve_links
from gitcache.domain.trees import SYMLINK, Entry

FILE = Entry(0o100644, "f" * 40)
LINK = Entry(SYMLINK, "1" * 40)


@pytest.mark.parametrize("target", ["real.yaml", "../web/real.yaml", "./x/../real.yaml"])
def test_a_link_to_a_file_of_the_folder_is_that_file(target: str) -> None:
    files = {"web/real.yaml": FILE, "web/link.yaml": LINK}
    assert resolve_links(files, files, {"web/link.yaml": target})["web/link.yaml"] == FILE


def test_a_chain_of_links_is_followed() -> None:
    files = {"real.yaml": FILE, "b.yaml": LINK, "a.yaml": LINK}
    resolved = resolve_links(files, files, {"a.yaml": "b.yaml", "b.yaml": "real.yaml"})
    assert resolved["a.yaml"] == FILE


@pytest.mark.parametrize(
    "target",
    ["/etc/passwd", "../../etc/passwd", "../other/x.yaml", "missing.yaml", "", ".", "link.yaml"],
)
def test_any_other_link_is_refused_without_telling_its_target(target: str) -> None:
    files = {"web/real.yaml": FILE, "web/link.yaml": LINK}
    with pytest.raises(Invalid, match=r"web/link\.yaml is a symbolic link") as caught:
        resolve_links(files, files, {"web/link.yaml": target})
    assert "passwd" not in caught.value.message


def test_links_in_a_circle_are_refused() -> None:
    files = {"a.yaml": LINK, "b.yaml": LINK}
    with pytest.raises(Invalid, match="symbolic link"):
        resolve_links(files, files, {"a.yaml": "b.yaml", "b.yaml": "a.yaml"})
