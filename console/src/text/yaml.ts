// Formats objects as YAML.
import { stringify } from "yaml";

const LARGE = 1_000_000;

/** YAML, or JSON for objects above 1 MB, which YAML would format too slowly. */
export function toYaml(value: unknown): string {
  const json = JSON.stringify(value, null, 2);
  return json.length > LARGE ? json : stringify(value, { lineWidth: 0 });
}

/** YAML of a JSON text; other text unchanged. */
export function asYaml(text: string): string {
  try {
    return toYaml(JSON.parse(text));
  } catch {
    return text;
  }
}
