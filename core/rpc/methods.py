"""gRPC methods of an agent; see `core/wire/v1/agent.proto`."""

from core.rpc.calls import CallMethod
from core.wire.v1 import agent_pb2 as pb

SYNC = CallMethod("/towline.v1.Agent/Sync", pb.AgentMessage, pb.HubMessage)
FETCH = CallMethod("/towline.v1.Agent/Fetch", pb.FetchRequest, pb.Chunk)
UPLOAD = CallMethod("/towline.v1.Agent/Upload", pb.Part, pb.Uploaded)
JOIN = CallMethod("/towline.v1.Agent/Join", pb.JoinRequest, pb.Joined)
# Raw bytes: frames of `core.mux`.
TUNNEL = "/towline.v1.KubeProxy/Tunnel"
