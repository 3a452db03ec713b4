import { expect, it } from "vitest";
import { parseScope } from "../src/access/scopes";
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
])("parses the scope %j", (text, scope) => expect(parseScope(text)).toEqual(scope));

it("keeps the secrets of a context if the text is empty", () => {
  expect(secretsOf("  \n")).toEqual({ secrets: null, problem: "" });
});

it("keeps secret values unchanged", () => {
  const secrets = [
    { name: "user", value: "shop" },
    { name: "key", value: "one\ntwo\n" },
  ];
  expect(secretsOf("user: shop\nkey: |\n  one\n  two\n")).toEqual({ secrets, problem: "" });
});

it("rejects an unquoted number as a secret, because YAML changes it", () => {
  expect(secretsOf("pin: 0123")).toEqual({ secrets: null, problem: "secrets: pin must be text; put it in quotes" });
});
