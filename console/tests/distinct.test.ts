import { cacheExchange } from "@urql/exchange-graphcache";
import { Client, fetchExchange, gql } from "@urql/core";
import { expect, it } from "vitest";
import { distinctExchange } from "../src/api/distinct";

const CHANGE = gql`
  mutation Sync($id: ID!) {
    sync(id: $id) {
      id
      version
    }
  }
`;

it("returns a result for each of several equal mutations", async () => {
  let version = 0;
  const fetch = () => {
    const body = JSON.stringify({ data: { sync: { __typename: "Service", id: "a", version: (version += 1) } } });
    return new Promise<Response>((resolve) => setTimeout(() => resolve(new Response(body, { headers: { "Content-Type": "application/json" } })), 5 * version));
  };
  const client = new Client({ url: "http://towline.example.org/gql", fetch, preferGetMethod: false, exchanges: [distinctExchange, cacheExchange(), fetchExchange] });
  const requests = [1, 2, 3].map(() => client.mutation<{ sync: { version: number } }>(CHANGE, { id: "a" }).toPromise());
  const versions = (await Promise.all(requests)).map(({ data }) => data?.sync.version);
  expect(new Set(versions)).toEqual(new Set([1, 2, 3]));
});
