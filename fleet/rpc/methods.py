"""gRPC methods of an agent; see `fleet/wire/v1/agent.proto`."""

from fleet.rpc.calls import Method
from fleet.wire.v1 import agent_pb2 as pb

SYNC = Method("/fleet.v1.Agent/Sync", pb.AgentMessage, pb.HubMessage)
FETCH = Method("/fleet.v1.Agent/Fetch", pb.FetchRequest, pb.Chunk)
UPLOAD = Method("/fleet.v1.Agent/Upload", pb.Part, pb.Uploaded)
# Raw bytes: frames of `fleet.mux`.
TUNNEL = "/fleet.v1.Door/Tunnel"
