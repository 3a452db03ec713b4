// Actions of the command palette.
import type { Entry } from "./entry";

export const ACTIONS: readonly Entry[] = [
  { kind: "action", title: "Approvals that need you", path: "/inbox?kind=approval" },
  { kind: "action", title: "Register cluster", path: "/clusters/new" },
  { kind: "action", title: "New service", path: "/services/new" },
  { kind: "action", title: "New pipeline", path: "/pipelines/new" },
  { kind: "action", title: "Connect repository", path: "/repositories?new=1" },
  { kind: "action", title: "New secret", path: "/secrets?new=1" },
  { kind: "action", title: "Download kubeconfig", path: "/access?tab=kubeconfig" },
  { kind: "action", title: "Request temporary access", path: "/access?tab=requests" },
  { kind: "action", title: "Check access", path: "/access?tab=who" },
  { kind: "action", title: "Failed services", path: "/services?status=FAILED" },
];
