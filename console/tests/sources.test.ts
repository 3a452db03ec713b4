import { describe, expect, it } from "vitest";
import { SECRET_SOURCES } from "../src/api/secretSources";
import { sourceFrom, SOURCE_KINDS, storeOf } from "../src/secrets/source";

function filled(values: Readonly<Record<string, string>>): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(values)) form.set(name, value);
  return form;
}

describe("sources of secrets", () => {
  it.each(SOURCE_KINDS)("sends every field of the form of %s", (kind) => {
    const names = SECRET_SOURCES[kind].fields.map(({ name }) => name);
    expect(names).toContain("key");
    const values = Object.fromEntries(names.map((name) => [name, `the ${name}`]));
    expect(sourceFrom(filled(values), kind)).toEqual({ source: { kind, ...values } });
  });

  it("asks for the service account that reads a Kubernetes Secret", () => {
    const reader = SECRET_SOURCES.KUBERNETES.fields.find(({ name }) => name === "readerId");
    expect(reader?.required).toBe(true);
  });

  it("names the place of a value without empty parts", () => {
    expect(storeOf({ source: { kind: "VAULT", store: "kv", path: "shop", key: "password" } })).toBe("Vault kv / shop / password");
    expect(storeOf({ source: { kind: "ENVIRONMENT", store: null, path: null, key: "DB" } })).toBe("Environment variable DB");
    expect(storeOf({ source: null })).toBe("Towline (encrypted)");
  });
});
