import { cacheExchange, Client, fetchExchange, gql } from "@urql/core";
import { expect, it, vi } from "vitest";
import { UNCACHED, uncachedExchange } from "../src/api/uncached";

const QUERY = gql`
  query Now($then: String) {
    now(then: $then)
  }
`;

it("fetches uncached queries every time and others once", async () => {
  const fetch = vi.fn(() => Promise.resolve(new Response('{"data":{"now":1}}', { headers: { "Content-Type": "application/json" } })));
  const client = new Client({ url: "http://towline.example.org/gql", fetch, preferGetMethod: false, exchanges: [uncachedExchange, cacheExchange, fetchExchange] });
  for (const context of [UNCACHED, UNCACHED, {}, {}]) {
    const { data } = await client.query<{ now: number }>(QUERY, { then: "a" }, context).toPromise();
    expect(data?.now).toBe(1);
  }
  expect(fetch).toHaveBeenCalledTimes(3);
});
