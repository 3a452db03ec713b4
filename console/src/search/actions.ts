// What can be begun from anywhere.
import type { Entry } from "./entry";

export const ACTIONS: readonly Entry[] = [
  { kind: "action", title: "Join a cluster", path: "/clusters/new" },
  { kind: "action", title: "New service", path: "/services/new" },
  { kind: "action", title: "New pipeline", path: "/pipelines/new" },
  { kind: "action", title: "Connect a repository", path: "/repositories?new=1" },
  { kind: "action", title: "New secret", path: "/secrets?new=1" },
  { kind: "action", title: "Download a kubeconfig", path: "/access?tab=kubeconfig" },
  { kind: "action", title: "Ask for access", path: "/access?tab=requests" },
  { kind: "action", title: "Who can do what", path: "/access?tab=who" },
  { kind: "action", title: "What failed", path: "/services?status=FAILED" },
];
