// The text filter of a page: when its text becomes part of the address.
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { FilterField } from "../src/ui/FilterField";


beforeEach(() => {
  vi.useFakeTimers();
  history.replaceState(null, "", "/");
});

afterEach(() => {
  cleanup();
  vi.useRealTimers();
});

it("sends the first letter at once, and at most one text in 50 ms after it", () => {
  render(<FilterField label="Filter services" />);
  const field = screen.getByLabelText("Filter services");
  const type = (value: string) => fireEvent.change(field, { target: { value } });
  type("w");
  expect(location.search).toBe("?q=w");
  type("we");
  type("web");
  expect(location.search).toBe("?q=w");
  vi.advanceTimersByTime(50);
  expect(location.search).toBe("?q=web");
});
