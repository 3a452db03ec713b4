import { cleanup, render, screen } from "@testing-library/react";
import { Client, Provider } from "urql";
import { afterEach, expect, it } from "vitest";
import { ServiceActions } from "../src/services/ServiceActions";
import type { Service } from "../src/services/service";

const ago = (seconds: number): string => new Date(Date.now() - seconds * 1000).toISOString();
const client = new Client({ url: "/", preferGetMethod: false, exchanges: [] });

afterEach(cleanup);

function shown(syncRequestedAt: string | null, pingedAt: string | null = ago(0)): string {
  const service = { id: "s", pinnedSha: null, promoted: false, paused: false, follows: "main", syncRequestedAt, cluster: { id: "c", handle: "dev", pingedAt } };
  const { container } = render(
    <Provider value={client}>
      <ServiceActions service={service as unknown as Service} />
    </Provider>,
  );
  return container.querySelector("span")?.textContent ?? "";
}

it("tells the time of a requested sync beside its button", () => {
  expect(shown(ago(30))).toMatch(/^sync requested \d+s ago$/);
  expect(screen.getByRole("button", { name: "Sync now" })).toBeTruthy();
});

it.each([ago(600), null])("says that a sync waits for an agent last seen at %s", (pingedAt) => {
  expect(shown(ago(30), pingedAt)).toMatch(/^sync requested \d+s ago; it starts when the agent connects$/);
});

it("tells nothing after the agent has ended the sync", () => {
  expect(shown(null)).toBe("");
});
