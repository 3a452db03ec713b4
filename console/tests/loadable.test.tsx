// Components whose scripts load on their first use: without a fallback once they are there.
import { act, cleanup, fireEvent, render, screen } from "@testing-library/react";
import { Suspense, useState } from "react";
import { afterEach, describe, expect, test } from "vitest";
import { PAGES, preload } from "../src/app/pages";
import { preloadPages } from "../src/app/preload";
import { loadable } from "../src/ui/loadable";

afterEach(cleanup);

function counter() {
  let calls = 0;
  function Counter({ from }: { readonly from: number }) {
    const [value, setValue] = useState(from);
    return <button onClick={() => setValue(value + 1)}>{value}</button>;
  }
  const load = async () => {
    calls += 1;
    return Promise.resolve({ Counter });
  };
  return { Shown: loadable(load, "Counter"), calls: () => calls };
}

const within = (shown: React.ReactNode) => <Suspense fallback={<p>loading</p>}>{shown}</Suspense>;

describe("a loadable component", () => {
  test("shows the fallback until its scripts are there", async () => {
    const { Shown } = counter();
    render(within(<Shown from={3} />));
    expect(screen.getByText("loading")).toBeDefined();
    expect(await screen.findByText("3")).toBeDefined();
  });

  test("is loaded again after a preload that failed", async () => {
    let calls = 0;
    const load = () => (calls++ === 0 ? Promise.reject(new Error("offline")) : Promise.resolve({ Counter: () => <p>here</p> }));
    const Shown = loadable(load, "Counter");
    await Shown.preload();
    render(within(<Shown />));
    expect(await screen.findByText("here")).toBeDefined();
  });

  test("needs no fallback after a preload", async () => {
    const { Shown, calls } = counter();
    await Shown.preload();
    render(within(<Shown from={3} />));
    expect(screen.getByText("3")).toBeDefined();
    await Shown.preload();
    expect(calls()).toBe(1);
  });

  test("keeps its state when it is rendered again after it has loaded", async () => {
    const { Shown } = counter();
    const { rerender } = render(within(<Shown from={3} />));
    fireEvent.click(await screen.findByText("3"));
    rerender(within(<Shown from={3} />));
    expect(screen.getByText("4")).toBeDefined();
  });
});

describe("the scripts of a page", () => {
  /** Paths whose page is loaded now, in the order of the calls. */
  const watched = () => {
    const loaded: string[] = [];
    const back = PAGES.flatMap(({ path, page }) => {
      if (!("preload" in page)) return [];
      const known = page.preload;
      Object.assign(page, {
        preload: async () => {
          loaded.push(path);
          return Promise.resolve();
        },
      });
      return [() => Object.assign(page, { preload: known })];
    });
    return { loaded, restore: () => back.forEach((put) => put()) };
  };

  test("load by the path, the fixed one before one with an id", () => {
    const { loaded, restore } = watched();
    for (const path of ["/services/new", "/services/0190", "/pipelines/0190/gates/7", "/", "/no/such/page"]) preload(path);
    expect(loaded).toEqual(["/services/new", "/services/:id", "/pipelines/:id/gates/:gate"]);
    restore();
  });

  test("load when the pointer or the focus is on a link to it", () => {
    const { loaded, restore } = watched();
    act(preloadPages);
    render(
      <>
        <a href="/clusters/eu-1">
          <b>eu-1</b>
        </a>
        <a href="/audit">Audit log</a>
        <a href="https://elsewhere.example.org/secrets">elsewhere</a>
        <p>no link</p>
      </>,
    );
    fireEvent.pointerOver(screen.getByText("eu-1"));
    fireEvent.focusIn(screen.getByText("Audit log"));
    fireEvent.pointerOver(screen.getByText("elsewhere"));
    fireEvent.pointerOver(screen.getByText("no link"));
    expect(loaded).toEqual(["/clusters/:handle", "/audit"]);
    restore();
  });
});
