import { describe, expect, it } from "vitest";
import { proxyPath } from "../src/api/kubeProxy";
import { join, LineReader, MAX_LINES, type Line } from "../src/objects/lines";
import { parseCast } from "../src/audit/cast";
import { recent, remember } from "../src/search/recent";
import { plain } from "../src/text/escapes";
import { parseMapping } from "../src/text/parseMapping";

describe("log lines", () => {
  it.each([
    ["\u001b[31mred\u001b[0m", "red"],
    ["\u001b]0;title\u0007text", "text"],
    ["\u001b]8;;javascript:alert(1)\u001b\\link\u001b]8;;\u001b\\", "link"],
    ["a\u202etxt.exe", "a�txt.exe"],
    ["bell\u0007", "bell�"],
    ["tab\tstays", "tab\tstays"],
  ])("shows %j as text", (given, shown) => expect(plain(given)).toBe(shown));

  it("buffers an incomplete line and limits its length", () => {
    const reader = new LineReader("pod");
    expect(reader.take("2026-01-01T00:00:00Z one\n2026-01-01T00:00:01Z tw")).toEqual([{ pod: "pod", at: "2026-01-01T00:00:00Z", text: "one" }]);
    expect(reader.take("o\n")).toEqual([{ pod: "pod", at: "2026-01-01T00:00:01Z", text: "two" }]);
    reader.take("x".repeat(1_000_000));
    expect(reader.take("\n")[0]?.text.length).toBeLessThan(20_000);
  });

  it("keeps the newest 100,000 lines, ordered by time", () => {
    const line = (at: number): Line => ({ pod: "a", at: String(at).padStart(9, "0"), text: "" });
    const many = join([], Array.from({ length: MAX_LINES + 5 }, (_, at) => line(at)));
    expect(many).toHaveLength(MAX_LINES);
    expect(many[0]).toEqual(line(5));
    expect(join([line(5)], [line(3)]).map(({ at }) => Number(at))).toEqual([3, 5]);
  });
});

it("escapes every part of a Kubernetes proxy path", () => {
  expect(proxyPath("../x", "pods", "a/b?c#d")).toBe("/k8s/clusters/..%2Fx/pods/a%2Fb%3Fc%23d");
});

describe("recordings", () => {
  it("skips invalid lines", () => {
    const cast = parseCast('{"version":2,"width":99999,"height":30}\n[0.5,"o","hi"]\n[1,"i","typed"]\nnot json\n[2,"o"]\n');
    expect(cast).toEqual({ width: 80, height: 30, events: [{ at: 0.5, text: "hi" }] });
  });

  it("accepts an empty file", () => expect(parseCast("").events).toEqual([]));
});

describe("recent entries", () => {
  it("link only to pages of the console", () => {
    localStorage.setItem("towline.recent", JSON.stringify([{ kind: "x", title: "evil", path: "//evil.example" }, { kind: "x", title: "evil", path: "javascript:alert(1)" }, 7]));
    expect(recent()).toEqual([]);
    remember({ kind: "service", title: "shop", path: "/services/1" });
    expect(recent().map(({ path }) => path)).toEqual(["/services/1"]);
  });

  it("ignore invalid JSON", () => {
    localStorage.setItem("towline.recent", "{");
    expect(recent()).toEqual([]);
  });
});

describe("YAML from users", () => {
  it("reports the line of a syntax error", () => expect(parseMapping("a: 1\nb: [\n").problem).toMatch(/^line [23]/));
  it("must be a mapping", () => expect(parseMapping("- 1").problem).not.toBe(""));
  it("limits aliases", () => {
    const bomb = `a: &a [1,1,1,1,1,1,1,1,1]\n${["b", "c", "d", "e", "f"].map((name, index) => `${name}: &${name} [${Array(9).fill(`*${"abcde"[index] ?? "a"}`).join(",")}]`).join("\n")}\n`;
    expect(parseMapping(bomb).problem).not.toBe("");
  });
});
