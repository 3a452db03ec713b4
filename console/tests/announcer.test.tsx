import { act, cleanup, render, screen, waitFor } from "@testing-library/react";
import { useRef } from "react";
import { Client, Provider, type Operation, type OperationResult } from "urql";
import { afterEach, beforeEach, expect, it } from "vitest";
import { filter, map, pipe } from "wonka";
import { PageAnnouncer, spokenText } from "../src/app/PageAnnouncer";
import { STATES, type State } from "../src/ui/states";
import { Status } from "../src/ui/Status";


const client = new Client({
  url: "/",
  preferGetMethod: false,
  exchanges: [() => (operations) => pipe(operations, filter(({ kind }) => kind !== "teardown"), map((operation: Operation) => ({ operation, data: null, error: undefined, stale: false, hasNext: false }) as OperationResult))],
});

function Page({ name, state }: { readonly name: string; readonly state: State }) {
  const main = useRef<HTMLElement>(null);
  return (
    <Provider value={client}>
      <PageAnnouncer main={main} />
      <main ref={main}>
        {name !== "" && (
          <h1>
            {name} <Status state={state} pill />
          </h1>
        )}
      </main>
    </Provider>
  );
}

const announced = () => document.querySelector("[aria-live=polite]")?.textContent;

beforeEach(() => history.replaceState(null, "", "/services/s1"));
afterEach(cleanup);

it("announces another page and another state of its subject, and names them in the title", async () => {
  const { rerender } = render(<Page name="web" state={STATES.healthy} />);
  await waitFor(() => expect(announced()).toBe("web Healthy"));
  expect(document.title).toBe("web Healthy · Services · Towline");
  rerender(<Page name="web" state={STATES.failed} />);
  await waitFor(() => expect(announced()).toBe("web Failed"));
  rerender(<Page name="" state={STATES.failed} />);
  await act(async () => Promise.resolve());
  expect(announced()).toBe("web Failed");
  expect(screen.queryByRole("heading")).toBeNull();
});

it("reads no decoration", () => {
  const heading = document.createElement("h1");
  heading.innerHTML = 'shop <span aria-hidden="true">●</span><b> #7 </b>';
  expect(spokenText(heading)).toBe("shop #7");
});
