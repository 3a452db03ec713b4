"""The cluster's objects behind the fences of projects."""

from dataclasses import dataclass

from core.spec.fences import ServiceFence
from core.spec.image_signatures import check_images
from core.spec.images import images_in
from core.spec.objects import ObjectRef
from core.spec.source_signatures import Evidence
from syncagent.domain.objects import KubeObject
from syncagent.domain.tenants import TenantPolicy
from syncagent.kube.client import KubeClient
from syncagent.kube.cluster import KubeCluster
from syncagent.kube.impersonation import ImpersonationProof
from syncagent.kube.jobs import KubeJobs
from syncagent.kube.service_account import sender_as
from syncagent.ports import Allowed, FencedCluster, JobCluster, ObjectApi

_MAX_ACCOUNTS = 1024
_UNFENCED = ServiceFence("")


@dataclass(frozen=True, slots=True)
class _FencedGuard:
    """The cluster's own allow-list, and the fence."""

    allowed: Allowed
    fence: ServiceFence

    def __call__(self, ref: ObjectRef) -> None:
        self.allowed(ref)
        self.fence.check(ref)


@dataclass(frozen=True, slots=True)
class _FencedJob:
    """The fence of a job. Its images have no evidence, so they must need no signature."""

    fence: ServiceFence

    def __call__(self, ref: ObjectRef, body: KubeObject) -> None:
        self.fence.check(ref)
        check_images(self.fence.images, images_in(body), Evidence())


class KubeFences:
    """Implements `ports.Fences`; `allowed` is the cluster's own allow-list."""

    def __init__(
        self,
        client: KubeClient,
        proof: ImpersonationProof,
        cluster: KubeCluster,
        allowed: Allowed,
        tenants: TenantPolicy,
    ) -> None:
        self._client = client
        self._proof = proof
        self._cluster = cluster
        self._allowed = allowed
        self._tenants = tenants
        self._cached: dict[ServiceFence, ObjectApi] = {}

    def within(self, fence: ServiceFence | None, namespace: str) -> FencedCluster:
        narrowed = self._tenants.narrowed(fence, namespace)
        if narrowed is None or not (narrowed.rules or narrowed.service_account):
            return FencedCluster(self._cluster, narrowed)
        return FencedCluster(self._objects_within(narrowed), narrowed)

    def _objects_within(self, fence: ServiceFence) -> ObjectApi:
        cached = self._cached.get(fence)
        if cached is None:
            if len(self._cached) >= _MAX_ACCOUNTS:
                self._cached.clear()
            cached = self._cached[fence] = self._build_objects(fence)
        return cached

    def _build_objects(self, fence: ServiceFence) -> ObjectApi:
        sender = sender_as(self._client, fence.service_account, self._proof)
        return self._cluster.acting_as(sender, _FencedGuard(self._allowed, fence))


class KubeJobFences:
    """Implements `ports.JobFences`. The job's policy, which covers the cluster's own allow-list,
    is checked by its runner.
    """

    def __init__(
        self,
        client: KubeClient,
        proof: ImpersonationProof,
        cluster: KubeCluster,
        tenants: TenantPolicy,
    ) -> None:
        self._client = client
        self._proof = proof
        self._cluster = cluster
        self._tenants = tenants

    @property
    def own(self) -> JobCluster:
        return self._jobs_within(_UNFENCED)

    def within(self, fence: ServiceFence | None, namespace: str) -> JobCluster:
        return self._jobs_within(self._tenants.narrowed(fence, namespace) or _UNFENCED)

    def _jobs_within(self, fence: ServiceFence) -> JobCluster:
        sender = sender_as(self._client, fence.service_account, self._proof)
        cluster = self._cluster.acting_as(sender, fence.check)
        return KubeJobs(sender, cluster, _FencedJob(fence))
