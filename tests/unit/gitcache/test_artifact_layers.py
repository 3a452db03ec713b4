"""Layers of artifacts become files, within limits; nothing leaves the artifact."""

import gzip
import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from gitcache.domain.artifacts import LayerForm
from gitcache.domain.trees import SYMLINK
from gitcache.render import charts
from gitcache.render.unpack import archive as limits
from gitcache.render.unpack.archive import gunzip
from gitcache.render.unpack.layers import EXECUTABLE, FILE, CommittedFile, PackedLayer, unpack


def entry(name: str, data: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def tar(
    *entries: tuple[tarfile.TarInfo, bytes],
    form: int = tarfile.PAX_FORMAT,
    headers: dict[str, str] | None = None,
) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form, pax_headers=headers) as made:
        for info, data in entries:
            made.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def layer(*entries: tuple[tarfile.TarInfo, bytes]) -> PackedLayer:
    return PackedLayer(LayerForm.TAR_GZIP, "", gzip.compress(tar(*entries), mtime=0))


def file(path: str, data: bytes = b"x") -> PackedLayer:
    return PackedLayer(LayerForm.FILE, path, data)


def test_files_folders_and_links_inside_are_unpacked() -> None:
    found = unpack(
        [
            layer(
                entry("./base", type=tarfile.DIRTYPE),
                entry("./base/app.yaml", b"a: 1\n"),
                entry("hook.sh", b"#!", mode=0o755),
                entry("overlay/link.yaml", type=tarfile.SYMTYPE, linkname="../base/app.yaml"),
                entry("copy.yaml", type=tarfile.LNKTYPE, linkname="base/app.yaml"),
            ),
            file("values.yaml", b"v: 1\n"),
        ]
    )
    assert found == {
        "base/app.yaml": CommittedFile(FILE, b"a: 1\n"),
        "hook.sh": CommittedFile(EXECUTABLE, b"#!"),
        "overlay/link.yaml": CommittedFile(SYMLINK, b"../base/app.yaml"),
        "copy.yaml": CommittedFile(FILE, b"a: 1\n"),
        "values.yaml": CommittedFile(FILE, b"v: 1\n"),
    }


def test_plain_tar_and_the_last_of_two_entries_are_read() -> None:
    data = tar(entry("a", b"old"), entry("a", b"new"))
    assert unpack([PackedLayer(LayerForm.TAR, "", data)]) == {"a": CommittedFile(FILE, b"new")}


def test_headers_of_a_whole_archive_are_no_files() -> None:
    """`git archive` writes the commit there."""
    archive = tar(entry("a.yaml", b"a"), headers={"comment": "c" * 40})
    found = unpack([PackedLayer(LayerForm.TAR, "", archive)])
    assert found == {"a.yaml": CommittedFile(FILE, b"a")}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_a_chart_archive_has_neither_links_nor_devices(kind: bytes) -> None:
    chart = entry("web/Chart.yaml", b"name: web\n")
    archive = tar(chart, entry("web/values.yaml", type=kind, linkname="Chart.yaml"))
    with pytest.raises(Invalid, match="contains a link or a device"):
        charts.unpack(gzip.compress(archive))
    assert charts.unpack(gzip.compress(tar(chart))) == {"Chart.yaml": b"name: web\n"}


def test_the_chart_folder_of_a_chart_archive_is_kept() -> None:
    found = unpack([layer(entry("web/Chart.yaml", b"name: web"))])
    assert set(found) == {"web/Chart.yaml"}


@pytest.mark.parametrize(
    ("layers", "reason"),
    [
        ([layer(entry("../x"))], "outside of it"),
        ([layer(entry("/etc/passwd"))], "outside of it"),
        ([layer(entry("a/../../x"))], "outside of it"),
        ([layer(entry("a//x"))], "outside of it"),
        ([layer(entry("a/./x"))], "outside of it"),
        ([file("a\0b")], "forbidden name"),
        ([layer(entry("l", type=tarfile.SYMTYPE, linkname="x" * 1025))], "leaves it"),
        ([layer(entry("a\\x"))], "forbidden name"),
        ([file("")], "forbidden name"),
        ([file("/etc/x")], "outside of it"),
        ([layer(entry("a/.git/config"))], "forbidden file name"),
        ([layer(entry("a/.GIT"))], "forbidden file name"),
        ([layer(entry("/".join("a" * 70)))], "levels deep"),
        ([layer(entry("a" * 2000))], "forbidden name"),
        ([layer(entry("n", type=tarfile.CHRTYPE))], "a device"),
        ([layer(entry("n", type=tarfile.BLKTYPE))], "a device"),
        ([layer(entry("n", type=tarfile.FIFOTYPE))], "a device"),
        ([layer(entry("l", type=tarfile.SYMTYPE, linkname="../x"))], "leaves it"),
        ([layer(entry("l", type=tarfile.SYMTYPE, linkname="/etc"))], "leaves it"),
        ([layer(entry("a/l", type=tarfile.SYMTYPE, linkname="../../x"))], "leaves it"),
        ([layer(entry("l", type=tarfile.LNKTYPE, linkname="../x"))], "outside of it"),
        ([layer(entry("l", type=tarfile.LNKTYPE, linkname="later"))], "does not precede"),
        (
            [layer(entry("l", type=tarfile.SYMTYPE, linkname="a"), entry("l/x"))],
            "both as a file and as a folder",
        ),
        ([layer(entry("a")), file("a")], "in two layers"),
        ([layer(entry("a")), file("a/b")], "both as a file and as a folder"),
        ([layer(entry("etc/.wh.passwd"))], "container image"),
        ([PackedLayer(LayerForm.TAR_GZIP, "", b"no gzip")], "malformed"),
        ([PackedLayer(LayerForm.TAR, "", b"no tar" * 200)], "malformed"),
        ([PackedLayer(LayerForm.TAR_GZIP, "", gzip.compress(b"x" * 9)[:-9])], "ends too early"),
    ],
)
def test_hostile_layers_are_refused(layers: list[PackedLayer], reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        unpack(layers)


def test_all_layers_share_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = gzip.compress(b"\0" * (limits.MAX_BYTES + 1))
    with pytest.raises(Invalid, match="unpacks to more than"):
        unpack([PackedLayer(LayerForm.TAR_GZIP, "", bomb)])
    half = bytes(limits.MAX_BYTES // 2)
    with pytest.raises(Invalid, match="too large"):
        unpack([file("a", half), file("b", half)])
    many = [entry(str(number)) for number in range(6_000)]
    others = [entry(f"b{number}") for number in range(6_000)]
    with pytest.raises(Invalid, match="more than 10,000 entries"):
        unpack([layer(*many), layer(*others)])


def test_all_members_of_a_gzip_file_are_read() -> None:
    assert gunzip(gzip.compress(b"ab") + gzip.compress(b"c") + b"\0" * 9, "it") == b"abc"


@given(st.lists(st.binary(max_size=600), max_size=3), st.sampled_from(LayerForm))
def test_any_bytes_are_unpacked_or_refused(layers: list[bytes], form: LayerForm) -> None:
    try:
        found = unpack([PackedLayer(form, f"f{n}", data) for n, data in enumerate(layers)])
    except Invalid:
        return
    for path, made in found.items():
        assert path == path.strip("/") and not {"", ".", "..", ".git"} & set(path.split("/"))
        assert made.mode in (FILE, EXECUTABLE, SYMLINK)


@given(st.text(max_size=40))
def test_no_name_leaves_the_artifact(name: str) -> None:
    try:
        found = unpack([file(name)])
    except Invalid:
        return
    (path,) = found
    parts = path.split("/")
    assert path and not path.startswith("/") and not {"", ".", "..", ".git"} & set(parts)
