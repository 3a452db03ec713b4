"""Fences that hand out one fake cluster, and remember for whom."""

from dataclasses import dataclass, field

from core.spec.fences import ServiceFence
from syncagent.ports import FencedCluster, JobCluster, ObjectApi


@dataclass
class FakeFences:
    """Fills in `ports.Fences`; `asked` are the fences of all requests."""

    cluster: ObjectApi
    asked: list[ServiceFence | None] = field(default_factory=list)

    def within(self, fence: ServiceFence | None, namespace: str) -> FencedCluster:
        self.asked.append(fence)
        return FencedCluster(self.cluster, fence)


@dataclass
class FakeJobFences:
    """Fills in `ports.JobFences`; `asked` are the fences of all requests."""

    own: JobCluster
    asked: list[ServiceFence | None] = field(default_factory=list)

    def within(self, fence: ServiceFence | None, namespace: str) -> JobCluster:
        self.asked.append(fence)
        return self.own
