"""Cluster selectors in the API."""

import strawberry

from controlplane.clusters.api.clusters import Tag, tags_of
from controlplane.clusters.api.inputs import TagAttributes
from controlplane.clusters.model.selectors import Selector
from controlplane.platform.graphql.derive import Draft, FieldValues, Output, computed, draft, output
from controlplane.platform.labels import LabelOperator, LabelRequirement

_SELECTOR = {"distro": "distribution", "group_ids": "groups", "ignored_cluster_ids": "excluded"}

strawberry.enum(LabelOperator, name="LabelOperator")


@output(LabelRequirement)
class LabelExpression(Output[LabelRequirement]):
    """A condition on one label, as in Kubernetes."""


@draft(LabelRequirement)
class LabelExpressionAttributes(Draft[LabelRequirement]):
    """A condition on one label, as in Kubernetes."""


@output(Selector, rename=_SELECTOR)
class ClusterSelector(Output[Selector]):
    """Conditions on clusters. A cluster must meet all. No condition selects every cluster."""

    tags: list[Tag] = computed(tags_of)


@draft(Selector, rename=_SELECTOR)
class ClusterSelectorAttributes(Draft[Selector]):
    """Conditions on clusters. A condition that is null or absent stays as it is."""

    tags: list[TagAttributes] | None = None

    def field_values(self) -> FieldValues:
        given = super().field_values()
        return {name: value for name, value in given.items() if value != ""}
