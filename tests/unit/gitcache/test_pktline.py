"""The framing of git's wire protocol."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitcache.mirror.transport import pktline

SHA = "a" * 40
PEELED = "b" * 40


@given(st.lists(st.binary(max_size=200)))
def test_encoding_round_trips(payloads: list[bytes]) -> None:
    data = b"".join(pktline.encode(one) for one in payloads) + pktline.FLUSH
    assert list(pktline.decode(data)) == [*payloads, None]


@given(st.binary(max_size=300))
def test_any_bytes_are_refs_or_malformed(data: bytes) -> None:
    try:
        refs = pktline.parse_refs(data)
    except pktline.Malformed:
        return
    assert all(len(sha) in {40, 64} for sha in refs.values())


@given(st.integers(min_value=1, max_value=90))
def test_a_cut_answer_is_never_taken_for_a_shorter_list(cut: int) -> None:
    """Half an answer must not read as refs that have gone."""
    whole = pktline.encode(f"{SHA} refs/heads/main\n".encode()) * 2 + pktline.FLUSH
    with pytest.raises(pktline.Malformed):
        pktline.parse_refs(whole[: -min(cut, len(whole))])


@pytest.mark.parametrize(
    "data",
    [
        pktline.encode(b"version 2\n")[:-1],
        b"0003",
        b"00",
        b"zzzz",
        pktline.encode(b"x") + b"0005",
    ],
)
def test_packets_that_are_cut_off_or_have_no_length_are_malformed(data: bytes) -> None:
    with pytest.raises(pktline.Malformed):
        list(pktline.decode(data))


@pytest.mark.parametrize(
    "lines",
    [
        [b"", f"{SHA} refs/heads/late\n".encode()],
        [SHA.encode()],
        [f"{SHA[:39]} refs/heads/main\n".encode()],
        [f"{SHA} refs/tags/v1 peeled:{SHA[:10]}\n".encode()],
        [b"unborn HEAD symref-target:refs/heads/main\n"],
    ],
)
def test_lines_that_are_no_refs_are_malformed(lines: list[bytes]) -> None:
    packets = [pktline.encode(line) if line else pktline.FLUSH for line in lines]
    with pytest.raises(pktline.Malformed):
        pktline.parse_refs(b"".join(packets) + pktline.FLUSH)


def test_other_attributes_of_a_ref_are_passed_over() -> None:
    line = f"{SHA} HEAD symref-target:refs/heads/main\n".encode()
    assert pktline.parse_refs(pktline.encode(line) + pktline.FLUSH) == {"HEAD": SHA}


def test_annotated_tags_are_peeled() -> None:
    line = f"{SHA} refs/tags/v1 peeled:{PEELED}\n".encode()
    assert pktline.parse_refs(pktline.encode(line) + pktline.FLUSH) == {"refs/tags/v1": PEELED}


def test_an_error_packet_is_no_list() -> None:
    with pytest.raises(pktline.Malformed):
        pktline.parse_refs(pktline.encode(b"ERR access denied\n") + pktline.FLUSH)


def test_a_packet_has_a_largest_size() -> None:
    with pytest.raises(ValueError, match="the limit is"):
        pktline.encode(b"x" * (pktline.MAX_PAYLOAD + 1))


def test_a_command_lists_capabilities_before_arguments() -> None:
    data = pktline.encode_command("ls-refs", ["agent=x"], ["peel"])
    assert list(pktline.decode(data)) == [b"command=ls-refs\n", b"agent=x\n", None, b"peel\n", None]
