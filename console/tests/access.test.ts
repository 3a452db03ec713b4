import { expect, it } from "vitest";
import { placeOf } from "../src/access/scopes";
import { secretsOf } from "../src/contexts/secrets";

it.each([
  ["project/shop", ["project", "", "shop"]],
  ["cluster/dev", ["cluster", "", "dev"]],
  ["service/dev/web", ["service", "dev", "web"]],
  ["service/web", null],
  ["cluster/dev/web", null],
  ["cluster/", null],
  ["cluster", null],
  ["user/kim", null],
  ["", null],
])("reads %j as a place", (text, place) => expect(placeOf(text)).toEqual(place));

it("leaves the secrets of a context alone of which nothing is said", () => {
  expect(secretsOf("  \n")).toEqual({ secrets: null, problem: "" });
});

it("takes all secrets of a context, exactly as they are written", () => {
  const secrets = [
    { name: "user", value: "shop" },
    { name: "key", value: "one\ntwo\n" },
  ];
  expect(secretsOf("user: shop\nkey: |\n  one\n  two\n")).toEqual({ secrets, problem: "" });
});

it("takes no number for a secret: it may have been written otherwise", () => {
  expect(secretsOf("pin: 0123")).toEqual({ secrets: null, problem: "secrets: pin has to be text, in quotes" });
});
