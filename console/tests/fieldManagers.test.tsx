import { cleanup, render, screen } from "@testing-library/react";
import { Client, Provider, type Operation, type OperationResult } from "urql";
import { afterEach, expect, it } from "vitest";
import { filter, map, pipe } from "wonka";
import { FieldManagers } from "../src/manage/FieldManagers";

const clientOf = (fieldManagers: readonly unknown[]) =>
  new Client({
    url: "/",
    preferGetMethod: false,
    exchanges: [
      () => (operations) =>
        pipe(
          operations,
          filter(({ kind }) => kind !== "teardown"),
          map((operation: Operation) => ({ operation, data: { fieldManagers }, error: undefined, stale: false, hasNext: false }) as OperationResult),
        ),
    ],
  });

const show = (fieldManagers: readonly unknown[]) =>
  render(
    <Provider value={clientOf(fieldManagers)}>
      <FieldManagers kind="Service" name="eu-1/web" />
    </Provider>,
  );

afterEach(cleanup);

it.each([
  [{ manager: "git source fleet", source: "fleet", reverts: true }, "Configuration source fleet sets ref, helm.values. Its next check reverts changes of them."],
  [{ manager: "git source fleet", source: "fleet", reverts: false }, "Configuration source fleet sets ref, helm.values. Its next commit overwrites changes of them."],
  [{ manager: "terraform", source: null, reverts: false }, "Manager terraform sets ref, helm.values. Its next apply may revert changes of them."],
])("says what a manager does to a change: %o", (manager, text) => {
  show([{ ...manager, fields: ["spec.ref", "spec.helm.values"] }]);
  expect(screen.getByRole("listitem").textContent).toBe(text);
});

it("shows nothing for a resource without a manifest", () => {
  show([]);
  expect(screen.queryByRole("list")).toBeNull();
});
