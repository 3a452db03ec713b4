"""Objects that name sealed values: which ones they need, and the object with them filled in."""

import base64
from collections.abc import Mapping

from fleet.errors import Invalid
from fleet.sealing import MARK, SealedSecret, fill, is_placeholder, names_in
from syncagent.domain.encrypted import EncryptedValue, set_apart
from syncagent.domain.objects import KubeObject
from syncagent.domain.services import ServiceSpec

Box = SealedSecret | EncryptedValue
Boxes = tuple[Box, ...]


def with_boxes(raw: KubeObject, text: bytes, spec: ServiceSpec) -> tuple[KubeObject, Boxes]:
    """An object as it is kept, and the boxes that it needs; `text` is the object as bytes.

    Invalid: it names a value where none may be, or one that was not given, or is encrypted where
    no agent opens it.
    """
    given = _given(raw, text, spec)
    plain, encrypted = set_apart(raw, text)
    return plain, (*given, *encrypted)


def _given(raw: KubeObject, text: bytes, spec: ServiceSpec) -> Boxes:
    if MARK not in text:
        return ()
    given = {one.name: one for one in spec.secrets}
    needed = sorted(names_in(raw))
    if missing := [name for name in needed if name not in given]:
        raise Invalid(f"the secrets {', '.join(missing)} were not given to this service")
    return tuple(given[name] for name in needed)


def filled(body: KubeObject, values: Mapping[str, bytes]) -> KubeObject:
    """A copy of a manifest's body with its values; Invalid as for `fleet.sealing.fill`.

    The body has what was named amid text in `data` too, as text: there drift is seen.
    """
    data = body.get("data") or {}
    texts = {k: v for k, v in data.items() if _names_amid_text(v)}
    plain = {k: v for k, v in data.items() if k not in texts}
    opened = fill(body | {"data": plain, "stringData": texts}, values)
    encoded = {k: base64.b64encode(v.encode()).decode() for k, v in opened["stringData"].items()}
    whole = {k: v for k, v in opened.items() if k != "stringData"}
    return whole | {"data": {**opened["data"], **encoded}}


def _names_amid_text(value: object) -> bool:
    return isinstance(value, str) and MARK.decode() in value and not is_placeholder(value)
