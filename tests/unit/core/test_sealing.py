"""A sealed value opens with one key and in one place, and stands only where secrets may."""

import base64
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from core.sealing import SealingKey, fill_placeholders, placeholder, placeholder_names, seal

PASSWORD = placeholder("db.password")


def secret(**parts: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}, **parts}


@given(st.binary(max_size=2000))
def test_only_the_agent_it_is_for_opens_it_and_only_in_its_place(plain: bytes) -> None:
    key, other = SealingKey.from_bytes(b"a" * 32), SealingKey.from_bytes(b"b" * 32)
    sealed = seal(key.public, "service-1", "db.password", "v1", plain)
    assert key.open(sealed, "service-1") == plain
    for opener, one, owner in (
        (other, sealed, "service-1"),
        (key, sealed, "service-2"),
        (key, replace(sealed, name="other"), "service-1"),
        (key, replace(sealed, box=sealed.box[:-1] + bytes([sealed.box[-1] ^ 1])), "service-1"),
        (key, replace(sealed, box=b""), "service-1"),
    ):
        with pytest.raises(Invalid, match="cannot decrypt"):
            opener.open(one, owner)


def test_a_key_survives_on_disk() -> None:
    key = SealingKey.generate()
    sealed = seal(key.public, "s", "n", "v", b"x")
    assert SealingKey.from_bytes(key.private).open(sealed, "s") == b"x"


def test_values_are_filled_into_secrets_and_the_object_keeps_its_placeholders() -> None:
    one = secret(data={"p": PASSWORD, "q": "eA=="}, stringData={"dsn": f"pg://u:{PASSWORD}@h"})
    assert placeholder_names(one) == {"db.password"}
    filled = fill_placeholders(one, {"db.password": b"hunter2"})
    assert filled["data"] == {"p": base64.b64encode(b"hunter2").decode(), "q": "eA=="}
    assert filled["stringData"] == {"dsn": "pg://u:hunter2@h"}
    assert one["data"] == {"p": PASSWORD, "q": "eA=="}


@pytest.mark.parametrize(
    "one",
    [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "c"},
            "data": {"p": PASSWORD},
        },
        secret(data={"p": "x" + PASSWORD}),
        secret(data=[PASSWORD]),
        secret(data=["x"], stringData={"p": PASSWORD}),
        secret(metadata={"name": "db", "annotations": {"p": PASSWORD}}),
        secret(stringData={PASSWORD: "x"}),
        secret(stringData={"p": "${towline.secret:not a name}"}),
        {"apiVersion": "x.io/v1", "kind": "Secret", "metadata": {}, "data": {"p": PASSWORD}},
    ],
)
def test_a_secret_named_elsewhere_is_refused(one: dict[str, object]) -> None:
    with pytest.raises(Invalid, match="use it only in a Secret"):
        placeholder_names(one)


def test_missing_secrets_are_named_and_binary_values_stay_hidden() -> None:
    with pytest.raises(Invalid, match=r"Secret db needs the secrets db\.password"):
        fill_placeholders(secret(data={"p": PASSWORD}), {})
    with pytest.raises(Invalid, match="is not UTF-8 text") as failure:
        fill_placeholders(secret(stringData={"p": PASSWORD}), {"db.password": b"\xff\x00"})
    assert failure.value.__cause__ is None


def test_a_placeholder_has_a_name_that_can_be_read_back() -> None:
    for wrong in ("", "a}b", "-a", "a b", "a" * 300):
        with pytest.raises(Invalid):
            placeholder(wrong)
