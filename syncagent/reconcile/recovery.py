"""Finding out what the agent owns after its disk was lost: the marks in the cluster tell."""

from syncagent.domain.inventory import Owned
from syncagent.domain.objects import controller_uid, metadata_of, ref_of
from syncagent.domain.ownership import SERVICE_LABEL, owner_of
from syncagent.domain.services import Desired, Stamps
from syncagent.ports import Cluster, Memory


async def recover(cluster: Cluster, memory: Memory) -> int:
    """Remember every object that carries our marks, and the services they name at sequence 0.

    Such a service has no desired state: nothing is done about it until the control plane speaks.
    Returns how many objects there are. Unavailable: the cluster cannot be asked now.
    """
    found = []
    for live in await cluster.find(SERVICE_LABEL):
        service_id = owner_of(live)
        if service_id is not None and not controller_uid(live):
            found.append(Owned(service_id, ref_of(live), metadata_of(live).get("uid") or ""))
    for service_id in sorted({one.service_id for one in found}):
        memory.desire(Desired(service_id, 0), Stamps())
    memory.record(found)
    return len(found)
