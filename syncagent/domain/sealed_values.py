"""Objects with placeholders for sealed values, and the substitution of these values."""

import base64
from collections.abc import Mapping

from core.errors import Invalid
from core.sealing import PLACEHOLDER_PREFIX, fill_placeholders, is_placeholder, placeholder_names
from core.spec.desired import BundleSpec
from core.spec.sealed_secrets import SealedSecret
from syncagent.domain.objects import KubeObject
from syncagent.domain.sops_values import EncryptedValue, extract_encrypted_values

SealedValue = SealedSecret | EncryptedValue
SealedValues = tuple[SealedValue, ...]


def with_sealed_values(
    raw: KubeObject, text: bytes, spec: BundleSpec
) -> tuple[KubeObject, SealedValues]:
    """Returns an object with placeholders and the sealed values it needs; `text` is the object as
    bytes.
    Invalid: a placeholder is in a wrong place, a value is missing, or an encrypted field is
    unsupported.
    """
    given = _given(raw, text, spec)
    plain, encrypted = extract_encrypted_values(raw, text)
    return plain, (*given, *encrypted)


def _given(raw: KubeObject, text: bytes, spec: BundleSpec) -> SealedValues:
    if PLACEHOLDER_PREFIX not in text:
        return ()
    given = {secret.name: secret for secret in spec.secrets}
    needed = sorted(placeholder_names(raw))
    if missing := [name for name in needed if name not in given]:
        names = ", ".join(missing)
        raise Invalid(
            f"the service has no access to the secrets {names}: give them with "
            "`towline secrets use`"
        )
    return tuple(given[name] for name in needed)


def with_plain_values(body: KubeObject, values: Mapping[str, bytes]) -> KubeObject:
    """Copies a manifest's body with its values filled in. Invalid: see
    `core.sealing.fill_placeholders`. Placeholders inside longer text are also in `data`, as text,
    where drift detection compares them.
    """
    data = body.get("data") or {}
    texts = {k: v for k, v in data.items() if _names_amid_text(v)}
    plain = {k: v for k, v in data.items() if k not in texts}
    opened = fill_placeholders(body | {"data": plain, "stringData": texts}, values)
    encoded = {k: base64.b64encode(v.encode()).decode() for k, v in opened["stringData"].items()}
    whole = {k: v for k, v in opened.items() if k != "stringData"}
    return whole | {"data": {**opened["data"], **encoded}}


def _names_amid_text(value: object) -> bool:
    return (
        isinstance(value, str)
        and PLACEHOLDER_PREFIX.decode() in value
        and not is_placeholder(value)
    )
