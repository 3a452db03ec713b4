"""Churn of a real cluster, recorded."""

import asyncio
from pathlib import Path

from core.runtime.clock import SystemClock
from core.spec.health import HealthState
from towline.cluster_access import from_kubeconfig
from towline.demo.clusters.agent_access import agent_kubeconfig
from towline.demo.clusters.cluster import LocalCluster
from towline.simulate.churn import RecordedChange
from towline.simulate.recorder import ChurnRecorder, recording

CLAIM = "v1/PersistentVolumeClaim"
MANIFEST = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: recorded}
spec: {accessModes: [ReadWriteOnce], storageClassName: none, resources: {requests: {storage: 1Ki}}}
"""


async def changes_until(recorder: ChurnRecorder, gone: bool) -> list[RecordedChange]:
    """Those of claims, once the last one is as it should be."""
    async with asyncio.timeout(60):
        while True:
            found = [one for one in recorder.recording().changes if one.kind == CLAIM]
            if found and found[-1].gone == gone:
                return found
            await asyncio.sleep(0.05)


async def test_creation_and_deletion_of_an_object_are_recorded(
    cluster: LocalCluster, namespace: str, tmp_path: Path
) -> None:
    """It comes, and it goes; whatever else the cluster does at the same time."""
    kubeconfig = agent_kubeconfig(cluster.access, tmp_path / "kubeconfig")
    access = from_kubeconfig(kubeconfig, None, SystemClock())
    kubectl = ("-n", namespace)
    async with recording(access, SystemClock()) as recorder:
        await asyncio.to_thread(cluster.kubectl, *kubectl, "create", "-f", "-", stdin=MANIFEST)
        first, *_ = await changes_until(recorder, gone=False)
        await asyncio.to_thread(cluster.kubectl, *kubectl, "delete", "pvc", "recorded")
        changes = await changes_until(recorder, gone=True)
    assert first.health is HealthState.PROGRESSING
    assert {one.object for one in changes} == {first.object}
    assert 0 < first.at < changes[-1].at
