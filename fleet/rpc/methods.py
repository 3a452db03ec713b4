"""The calls of an agent; `fleet/wire/v1/agent.proto` tells what they mean."""

from fleet.rpc.calls import Method
from fleet.wire.v1 import agent_pb2 as pb

SYNC = Method("/fleet.v1.Agent/Sync", pb.AgentMessage, pb.HubMessage)
FETCH = Method("/fleet.v1.Agent/Fetch", pb.FetchRequest, pb.Chunk)
UPLOAD = Method("/fleet.v1.Agent/Upload", pb.Part, pb.Uploaded)
# Of raw bytes: frames of `fleet.mux`.
TUNNEL = "/fleet.v1.Door/Tunnel"
