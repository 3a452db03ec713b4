import { useQuery } from "urql";
import { PermissionDocument } from "../api/generated";
import type { Permission } from "./kind";

/** Reason why the user certainly lacks a permission; empty if the user has it, or if only the server can tell. */
export function useLack(permission?: Permission): string {
  const { verb, kind, everywhere = false } = permission ?? ({ verb: "READ", kind: "PROJECT" } as const);
  const [{ data }] = useQuery({ query: PermissionDocument, variables: { verb, kind }, pause: permission === undefined });
  if (permission === undefined || data == null || data.can) return "";
  // A role in a project may permit it there.
  if (!everywhere && data.myAccess.some(({ scope }) => scope !== "installation")) return "";
  return `You need the permission ${verb.toLowerCase()} ${kind.toLowerCase()}${everywhere ? " in the whole installation" : ""}.`;
}
