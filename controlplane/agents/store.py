"""Tables of agents: commands, jobs, and the links of replicas."""

from datetime import datetime

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
)

from controlplane.agents.model.jobs import ClusterJob
from controlplane.agents.model.replicas import Replica
from controlplane.agents.ports import ClusterJobStore, ReplicaStore, TunnelStore
from controlplane.clusters.model.commands import Command
from controlplane.clusters.ports import CommandStore
from controlplane.clusters.store import commands
from controlplane.platform.store.columns import EnumColumn, JsonColumn, UtcColumn
from controlplane.platform.store.rows import TableRows, tables
from controlplane.platform.store.schema import id_column, metadata
from core.json_object import JsonObject
from core.spec.jobs import JobPhase
from core.spec.objects import ObjectRef
from core.spec.tunnels import Tunnel

cluster_jobs = Table(
    "cluster_jobs",
    metadata,
    id_column(),
    Column("cluster_id", String(36), ForeignKey("clusters.id"), nullable=False, index=True),
    Column("key", String(255), nullable=False, unique=True),
    Column("namespace", String(63), nullable=False),
    Column("manifest", JsonColumn(JsonObject), nullable=False),
    Column("timeout_s", Integer, nullable=False),
    Column("follow", Boolean, nullable=False),
    Column("actor", String(320), nullable=False),
    Column("inserted_at", UtcColumn, nullable=False),
    Column("phase", EnumColumn(JobPhase), nullable=False),
    Column("message", Text, nullable=False),
    Column("object", JsonColumn(ObjectRef)),
    Column("exit_code", Integer),
    Column("started_at", UtcColumn),
    Column("finished_at", UtcColumn),
    Column("log_tail", Text, nullable=False),
    Column("outputs", JsonColumn(dict[str, str]), nullable=False),
    Column("retry_of", String(36)),
    Column("sealed", LargeBinary),
    Column("project_id", String(36), nullable=False),
)


replicas = Table(
    "replicas",
    metadata,
    id_column(),
    Column("address", String(255), nullable=False),
    Column("heartbeat", UtcColumn, nullable=False),
)


tunnels = Table(
    "tunnels",
    metadata,
    id_column(),
    Column("since", UtcColumn, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("replica_id", String(36), index=True),
    Column("instance", String(64), nullable=False),
    Column("peer", String(255), nullable=False),
    Column("swaps", JsonColumn(tuple[datetime, ...]), nullable=False),
)

REPOSITORIES = tables(
    TableRows(CommandStore, commands, Command),
    TableRows(ClusterJobStore, cluster_jobs, ClusterJob),
    TableRows(ReplicaStore, replicas, Replica),
    TableRows(TunnelStore, tunnels, Tunnel),
)
