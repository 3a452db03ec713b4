import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, expect, it, vi } from "vitest";
import { Boundary } from "../src/app/Boundary";

afterEach(cleanup);

function Broken(): never {
  throw new Error("a part of this page is gone");
}

it("says that a page cannot be shown, and shows the next one", () => {
  vi.spyOn(console, "error").mockImplementation(() => {});
  const { rerender } = render(
    <Boundary where="/one">
      <Broken />
    </Boundary>,
  );
  expect(screen.getByRole("alert").textContent).toContain("cannot be shown");
  rerender(<Boundary where="/two">all is well</Boundary>);
  expect(screen.queryByRole("alert")).toBeNull();
  expect(screen.getByText("all is well")).toBeTruthy();
});
