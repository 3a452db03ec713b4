import { describe, expect, it } from "vitest";
import { duration } from "../src/text/time";

describe("duration", () => {
  it.each([
    [0, "0s"],
    [900, "0s"],
    [59_000, "59s"],
    [61_000, "1m 1s"],
    [3_600_000, "1h"],
    [7_500_000, "2h 5m"],
    [90_000_000, "1d"],
    [-5, "0s"],
  ])("formats %i ms as %s", (milliseconds, text) => expect(duration(milliseconds)).toBe(text));
});
