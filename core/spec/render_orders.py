"""Render orders for an agent, in the form that is sealed to that agent."""

from dataclasses import asdict, dataclass, replace

import orjson

from core.errors import Invalid
from core.json_object import JsonMapping, JsonObject, JsonValue
from core.spec.image_signatures import ImageSignatureRule, SignatureRules
from core.spec.renderers import HelmRelease, RenderOptions
from core.spec.source import (
    GitCredentials,
    RenderRequest,
    RepositoryKind,
    RepositorySpec,
    SourceFolder,
)
from core.spec.source_signatures import SignatureRule, SignerSet

ORDER_SECRET_NAME = "order"
"""The name that binds a sealed order to its command."""


@dataclass(frozen=True, slots=True, repr=False)
class RenderOrder:
    """A render request and its repositories, each with credentials for that repository only.

    Has no repr, so that it is never printed.
    """

    request: RenderRequest
    repositories: tuple[RepositorySpec, ...]


def dump_order(order: RenderOrder) -> bytes:
    """Encodes an order as JSON with plain-text secrets: seal the result.

    Raises Invalid for parameters that JSON cannot represent.
    """
    try:
        return orjson.dumps(
            {
                "request": asdict(order.request),
                "repositories": [
                    asdict(replace(repository, refs=frozenset(), folders=frozenset()))
                    for repository in order.repositories
                ],
            },
            default=_as_list,
        )
    except TypeError as error:
        raise Invalid(f"the parameters of a render cannot be written as JSON: {error}") from None


def load_order(data: bytes) -> RenderOrder:
    """Decodes the output of `dump_order`. Raises Invalid, without quoting the data."""
    try:
        raw = orjson.loads(data)
        return RenderOrder(
            _parse_request(raw["request"]),
            tuple(_parse_repository(item) for item in raw["repositories"]),
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        raise Invalid(
            "cannot read the render order; upgrade the agent if it is older than the control plane"
        ) from None


def _parse_request(raw: JsonMapping) -> RenderRequest:
    fields: JsonObject = dict(raw)
    if (helm := raw["helm"]) is not None:
        fields["helm"] = HelmRelease(**helm | {"values_files": tuple(helm["values_files"])})
    fields["options"] = RenderOptions.from_json(raw["options"])
    fields["sources"] = tuple(SourceFolder(**item) for item in raw["sources"])
    rules = raw["signatures"]
    fields["signatures"] = SignatureRules(
        tuple(_parse_signature_rule(item) for item in rules["sources"]),
        tuple(ImageSignatureRule(item["match"], _signer_sets(item)) for item in rules["images"]),
    )
    return RenderRequest(**fields)


def _parse_signature_rule(raw: JsonMapping) -> SignatureRule:
    return SignatureRule(raw["url"], tuple(raw["charts"]), _signer_sets(raw))


def _signer_sets(raw: JsonMapping) -> tuple[SignerSet, ...]:
    return tuple(SignerSet(**item) for item in raw["signed_by"])


def _parse_repository(raw: JsonMapping) -> RepositorySpec:
    fields: JsonObject = dict(raw)
    if (credentials := raw["credentials"]) is not None:
        fields["credentials"] = GitCredentials(**credentials)
    fields["kind"] = RepositoryKind(raw["kind"])
    fields["refs"], fields["folders"] = frozenset(raw["refs"]), frozenset(raw["folders"])
    return RepositorySpec(**fields)


def _as_list(value: JsonValue) -> list[object]:
    if isinstance(value, frozenset | set | tuple):
        return sorted(value)
    raise TypeError(type(value).__name__)
