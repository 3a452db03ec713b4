"""Tables of agents: commands, jobs, and the links of replicas."""

from sqlalchemy import BigInteger, Column

from controlplane.agents.model.jobs import ClusterJob
from controlplane.agents.model.replicas import Replica
from controlplane.agents.ports import ClusterJobStore, ReplicaStore, TunnelStore
from controlplane.clusters.model.commands import Command
from controlplane.clusters.ports import CommandStore
from controlplane.clusters.store import commands
from controlplane.platform.store.row_tables import row_table
from controlplane.platform.store.rows import TableRows, tables
from core.spec.tunnels import Tunnel

cluster_jobs = row_table(
    "cluster_jobs",
    ClusterJob,
    lengths={"key": 255, "namespace": 63, "actor": 320, "retry_of": 36},
    indexed={"cluster_id"},
    unique={"key"},
    references={"cluster_id": "clusters.id"},
)


replicas = row_table("replicas", Replica, lengths={"address": 255})


tunnels = row_table(
    "tunnels",
    Tunnel,
    Column("epoch", BigInteger, nullable=False),
    lengths={"instance": 64, "peer": 255},
    indexed={"replica_id"},
)

REPOSITORIES = tables(
    TableRows(CommandStore, commands, Command),
    TableRows(ClusterJobStore, cluster_jobs, ClusterJob),
    TableRows(ReplicaStore, replicas, Replica),
    TableRows(TunnelStore, tunnels, Tunnel),
)
