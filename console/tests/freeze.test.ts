import { expect, it } from "vitest";
import { freezeText } from "../src/clusters/freeze";

it("names the group to those who may read it, and the reason if there is one", () => {
  const freeze = { by: "ann@example.org", reason: "new year", group: "eu" };
  expect(freezeText(freeze)).toBe("ann@example.org froze the cluster group eu: new year. Changes wait until a user unfreezes the group.");
  expect(freezeText({ ...freeze, reason: null, group: null })).toBe("ann@example.org froze a cluster group of this cluster. Changes wait until a user unfreezes the group.");
});
