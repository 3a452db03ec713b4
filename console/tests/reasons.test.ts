import { expect, it } from "vitest";
import type { ServiceRowFragment } from "../src/api/generated";
import { reasonFor } from "../src/services/columns";

const healthy = { errors: [], message: null, waiting: false, status: "HEALTHY", drifted: 0, sha: "abc" };

it.each([
  [{}, ""],
  [{ errors: [{ source: "render", message: "no such folder" }], message: "x" }, "no such folder"],
  [{ status: "DRIFTED", drifted: 1 }, "1 object differs from what was applied"],
  [{ status: "DRIFTED", drifted: 2 }, "2 objects differ from what was applied"],
  [{ status: "FAILED", message: "image not found" }, "image not found"],
  [{ status: "STALE", waiting: true, sha: null }, "waiting for dependencies to become healthy"],
  [{ status: "STALE", sha: null, message: "" }, "no commit delivered yet"],
])("names the reason of a state: %o", (part, reason) => {
  expect(reasonFor({ ...healthy, ...part } as unknown as ServiceRowFragment)).toBe(reason);
});
