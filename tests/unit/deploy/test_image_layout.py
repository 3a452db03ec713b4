"""An image's archive is the same bytes for the same files, and what an engine reads out of it."""

import tarfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from deploy.image.__main__ import config
from deploy.image.debian import ONLY
from deploy.image.oci import ImageLayout, unpack
from deploy.image.program import locked
from deploy.image.tree import TreeEntry, archive, place_files, skeleton
from gitcache.mirror.runner import LOW_PRIORITY

TREE = {"usr/bin/a": TreeEntry(b"#!", mode=0o755), "usr/bin/b": TreeEntry(link="a", mode=0o777)}
names = st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=4).map("/".join)


@given(st.dictionaries(names, st.binary(max_size=20)), st.randoms())
def test_the_order_in_which_files_come_does_not_matter(files: dict[str, bytes], random) -> None:
    """Nor does anything of the machine that packs them."""
    # A name is not a file and a folder at once.
    files = {n: d for n, d in files.items() if not any(o.startswith(f"{n}/") for o in files)}
    tree = {name: TreeEntry(data, mode=0o644) for name, data in files.items()}
    shuffled = list(tree.items())
    random.shuffle(shuffled)
    assert archive(tree, 7) == archive(dict(shuffled), 7)


def test_layers_lie_over_each_other_as_an_engine_lays_them(tmp_path: Path) -> None:
    for level in (0, 6):
        layout = ImageLayout(1, level)
        for architecture in ("amd64", "arm64"):
            changed = {"usr/bin/a": TreeEntry(architecture.encode(), mode=0o755)}
            layout.add(architecture, config(), [skeleton() | TREE, changed])
        digest = layout.write(tmp_path / "image.tar", "1")
        assert layout.write(tmp_path / "again.tar", "1") == digest
        root = tmp_path / str(level)
        assert unpack(tmp_path / "image.tar", "arm64", root)["config"]["User"] == "65532:65532"
        assert (root / "bin/b").read_bytes() == b"arm64"
        assert (root / "var/lib/towline").stat().st_mode & 0o777 == 0o700
    with tarfile.open(tmp_path / "image.tar") as tar:
        assert {"oci-layout", "index.json"} <= set(tar.getnames())


def test_folders_of_a_system_lie_below_usr() -> None:
    assert place_files("./lib/x86_64-linux-gnu/libc.so.6") == "usr/lib/x86_64-linux-gnu/libc.so.6"
    assert place_files("./usr/bin/git") == "usr/bin/git"
    assert place_files("./etc/ssl") == "etc/ssl"


def test_the_image_has_what_git_is_started_by() -> None:
    for program in ("env", LOW_PRIORITY[0]):
        assert ONLY["coreutils"].match(f"usr/bin/{program}")


def test_locked_packages_match_the_python_of_the_image() -> None:
    """Not for the one that builds it."""
    text = (
        "a==1 ; python_full_version < '3.11.3' \\\n    --hash=sha256:aa\n"
        "b==1 ; sys_platform == 'win32' \\\n    --hash=sha256:bb\n"
        "c==1 \\\n    --hash=sha256:cc\n"
    )
    kept = "a==1 \\\n    --hash=sha256:aa\nc==1 \\\n    --hash=sha256:cc\n"
    assert locked(text, "x86_64") == kept
