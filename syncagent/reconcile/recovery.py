"""Recovery of owned objects after a lost disk, from the labels in the cluster."""

from core.spec.desired import Desired
from core.spec.status import StageTimes
from syncagent.domain.objects import controller_uid, metadata_of, ref_of
from syncagent.domain.observed.inventory import OwnedObject
from syncagent.domain.ownership import SERVICE_LABEL, owner_of
from syncagent.ports import KubeApi, StateStore, StoredService
from syncagent.reconcile.registry import ServiceRegistry


async def recover(cluster: KubeApi, memory: StateStore, registry: ServiceRegistry) -> int:
    """Registers every object with our labels; unknown services get sequence 0.
    Such a service has no desired state, so the agent does nothing until the control plane sends
    one. Returns the number of objects found. Unavailable: the cluster cannot be reached.
    """
    found = []
    async for live in cluster.find(SERVICE_LABEL):
        service_id, ref = owner_of(live), ref_of(live)
        known = registry.owner_of_key(ref.key) is not None
        if service_id is not None and not known and not controller_uid(live):
            found.append(OwnedObject(service_id, ref, metadata_of(live).get("uid") or ""))
    unspoken = sorted({entry.service_id for entry in found} - {service.id for service in registry})
    for service_id in unspoken:
        memory.save_desired_state(Desired(service_id, 0), StageTimes())
    memory.save_objects(found)
    memory.mark_recovered()
    registry.restore([StoredService(Desired(id, 0), None, StageTimes()) for id in unspoken], found)
    return len(found)
