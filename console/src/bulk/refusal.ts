import type { Client } from "urql";
import { PermissionDocument } from "../api/generated";
import type { Permission } from "../manage/kind";
import type { Plan } from "./operation";

/** Refusal of an operation on a resource that the user may not change; null if the user may. */
export async function refusalOf(client: Client, { verb, kind, everywhere = false }: Permission, id: string): Promise<Extract<Plan<never>, { kind: "refused" }> | null> {
  const { data, error } = await client.query(PermissionDocument, { verb, kind, id: everywhere ? null : id }).toPromise();
  if (data == null) throw error ?? new Error("the control plane did not answer");
  if (data.can) return null;
  const noun = kind.toLowerCase().replaceAll("_", " ");
  return { kind: "refused", reason: `You need the permission ${verb.toLowerCase()} ${noun} ${everywhere ? "in the whole installation" : `for this ${noun}`}.` };
}
