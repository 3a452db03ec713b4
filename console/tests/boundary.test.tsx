import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { Boundary } from "../src/app/Boundary";

afterEach(cleanup);

function Broken(): never {
  throw new Error("broken page");
}

it("shows an error for a broken page, and the next page afterwards", () => {
  vi.spyOn(console, "error").mockImplementation(() => {});
  const { rerender } = render(
    <Boundary where="/one">
      <Broken />
    </Boundary>,
  );
  expect(screen.getByRole("alert").textContent).toContain("failed to load");
  rerender(<Boundary where="/two">all is well</Boundary>);
  expect(screen.queryByRole("alert")).toBeNull();
  expect(screen.getByText("all is well")).toBeTruthy();
});
