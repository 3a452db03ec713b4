import { cleanup, render, screen } from "@testing-library/react";
import { userEvent } from "@testing-library/user-event";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { GateFullFragment } from "../src/api/generated";
import { GateForm } from "../src/pipelines/GateForm";
import { GATE_KINDS, STEP_KINDS } from "../src/api/kinds";
import { stepsOf } from "../src/pipelines/gatesteps";
import { within } from "../src/pipelines/limits";
import { MetricChart } from "../src/pipelines/MetricChart";
import { newRule } from "../src/pipelines/RuleForm";
import { StepsForm } from "../src/pipelines/StepsForm";

afterEach(cleanup);

const AT = "2026-11-21T12:00:00Z";
const measurement = (value: number, passed: boolean, step = "check") => ({ at: AT, step, release: 3, passed, values: [value] });
const check: GateFullFragment["checks"][number] = { step: "errors", state: "RUNNING", reason: "", attempt: 1, jobId: null, outputs: [] };

describe("the form of a gate", () => {
  it("shows the default of a checkbox and can change it", async () => {
    const change = vi.fn();
    const gate = newRule(GATE_KINDS, "sign-off", "APPROVAL");
    const { rerender } = render(<GateForm gate={gate} onChange={change} onRemove={vi.fn()} />);
    const box = screen.getByLabelText<HTMLInputElement>("Exclude the author of the commit");
    expect(box.checked).toBe(true);
    await userEvent.click(box);
    expect(change).toHaveBeenLastCalledWith({ ...gate, notAuthor: false });
    rerender(<GateForm gate={{ ...gate, notAuthor: false }} onChange={change} onRemove={vi.fn()} />);
    expect(box.checked).toBe(false);
    await userEvent.click(box);
    expect(change).toHaveBeenLastCalledWith(gate);
  });

  it("keeps the order of workflow steps when their kind changes", async () => {
    const change = vi.fn();
    const steps = [newRule(STEP_KINDS, "test", "JOB"), { ...newRule(STEP_KINDS, "pause", "WAIT"), after: ["test"] }];
    render(<StepsForm steps={steps} onChange={change} />);
    await userEvent.selectOptions(screen.getAllByLabelText(/^Kind/)[1] as HTMLElement, "APPROVAL");
    expect(change).toHaveBeenLastCalledWith([steps[0], { after: ["test"], ...newRule(STEP_KINDS, "pause", "APPROVAL") }]);
    await userEvent.click(screen.getByText("Add step"));
    expect(change).toHaveBeenLastCalledWith([...steps, newRule(STEP_KINDS, "step-3", "JOB")]);
  });
});

describe("the steps of a gate", () => {
  const metric = { name: "errors", type: "METRIC", metric: { query: "up", threshold: 2, comparison: "BELOW" } };
  const settings = JSON.stringify({ steps: [metric, { name: "ask", type: "APPROVAL", after: ["errors"] }] });

  it("include all steps, with the progress of those that have started", () => {
    const [errors, ask] = stepsOf({ type: "WORKFLOW", settings, checks: [check] }, [measurement(1, true, "errors"), measurement(9, false, "other")]);
    expect(errors).toMatchObject({ title: "Metric", check, limit: { threshold: 2, comparison: "BELOW" }, measured: [{ values: [1] }] });
    expect(ask).toMatchObject({ title: "Approval", check: null, limit: null, after: ["errors"], measured: [] });
  });

  it("are one step for a gate with a single check", () => {
    const settings = '{"metric":{"query":"up","threshold":1}}';
    const [only] = stepsOf({ type: "METRIC", settings, checks: [{ ...check, step: "check" }] }, [measurement(1, true)]);
    expect(only).toMatchObject({ limit: { threshold: 1, comparison: "AT_MOST" }, measured: [{ values: [1] }] });
    expect(stepsOf({ type: "METRIC", settings, checks: [] }, [measurement(1, true)])).toMatchObject([{ check: null, measured: [{ values: [1] }] }]);
    expect(stepsOf({ type: "SOAK", settings: "{}", checks: [] }, [])).toEqual([]);
  });
});

describe("measurements of a metric", () => {
  const limit = { comparison: "AT_MOST", threshold: 1 };

  it("are drawn and described as text", () => {
    const { container } = render(<MetricChart measured={[measurement(0.5, true), measurement(1.5, false)]} limit={limit} />);
    expect(screen.getByRole("img").getAttribute("aria-label")).toBe("2 measurements, limit at most 1: 1 failed. Latest: 1.5.");
    expect(container.querySelectorAll(".dot.ok, .dot.bad")).toHaveLength(2);
    expect(container.querySelector(".dot.bad title")?.textContent).toContain("1.5 for #3");
  });

  it("show nothing without data", () => expect(render(<MetricChart measured={[]} limit={limit} />).container.innerHTML).toBe(""));

  it("are compared with the limit", () => {
    expect(within(1, limit)).toBe(true);
    expect(within(1, { comparison: "BELOW", threshold: 1 })).toBe(false);
  });
});

describe("the hints of gate settings", () => {
  const noteOf = (type: "VERSION" | "JOB" | "METRIC", path: string) => GATE_KINDS[type].fields.find((field) => field.path === path)?.note;

  // The control plane looks the service up by name in every cluster of the target stage: `cluster/name` never matches.
  it("asks a VERSION gate for a service name without its cluster", () => {
    expect(noteOf("VERSION", "version.service")).toMatch(/^Name without a cluster/);
    expect(noteOf("VERSION", "version.service")).toContain("target stage");
  });

  // Without `clusterId` the control plane runs the Job in the cluster of the target stage's first service.
  it("names the target stage as the default of a JOB gate's cluster", () => {
    expect(noteOf("JOB", "job.clusterId")).toContain("first service in the target stage");
  });

  // The API rejects `metric.service` without `metric.clusterId`.
  it("has the cluster of a METRIC gate that queries a Service", () => {
    expect(noteOf("METRIC", "metric.clusterId")).toBeDefined();
  });
});
