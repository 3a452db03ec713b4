import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, describe, expect, it } from "vitest";
import { componentState, gateState, serviceState, stageState, STATES } from "../src/ui/states";
import { Status } from "../src/ui/Status";

afterEach(cleanup);

const SOURCES = join(import.meta.dirname, "../src");

describe("states", () => {
  it("have one label each", () => {
    const labels = Object.values(STATES).map(({ label }) => label);
    expect(new Set(labels).size).toBe(labels.length);
  });

  it("show unknown values of a newer API as Unknown", () => {
    for (const state of [serviceState("NEW"), componentState("NEW"), componentState(null), stageState("NEW"), gateState("NEW")]) expect(state).toBe(STATES.unknown);
  });

  it("show shape, label and detail", () => {
    const { container } = render(<Status state={STATES.suspended} detail="freeze" />);
    expect(screen.getByText("Suspended: freeze")).toBeTruthy();
    expect(container.textContent).toContain(STATES.suspended.shape);
  });

  it("come from one module: no other file defines a tone", () => {
    const files = readdirSync(SOURCES, { recursive: true, encoding: "utf8" }).filter((name) => /\.tsx?$/.test(name) && !name.endsWith("states.ts"));
    expect(files.filter((name) => /tone[:=] ?["{]/.test(readFileSync(join(SOURCES, name), "utf8")))).toEqual([]);
  });
});
