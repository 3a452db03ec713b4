import { cleanup, render, screen } from "@testing-library/react";
import { userEvent } from "@testing-library/user-event";
import { afterEach, expect, it, vi } from "vitest";
import { begunGate, GateForm } from "../src/pipelines/GateForm";

afterEach(cleanup);

it("shows what counts where nothing is written, and can say otherwise", async () => {
  const change = vi.fn();
  const gate = begunGate("sign-off", "APPROVAL");
  const { rerender } = render(<GateForm gate={gate} onChange={change} onRemove={vi.fn()} />);
  const box = screen.getByLabelText<HTMLInputElement>("Not by the author of the commit");
  expect(box.checked).toBe(true);
  await userEvent.click(box);
  expect(change).toHaveBeenLastCalledWith({ ...gate, notAuthor: false });
  rerender(<GateForm gate={{ ...gate, notAuthor: false }} onChange={change} onRemove={vi.fn()} />);
  expect(box.checked).toBe(false);
  await userEvent.click(box);
  expect(change).toHaveBeenLastCalledWith(gate);
});
