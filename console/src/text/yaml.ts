// Objects as people read them.
import { stringify } from "yaml";

const LARGE = 1_000_000;

/** YAML; JSON for what is so large that YAML would keep the page waiting. */
export function toYaml(value: unknown): string {
  const json = JSON.stringify(value, null, 2);
  return json.length > LARGE ? json : stringify(value, { lineWidth: 0 });
}

/** A text of JSON as YAML; a text of anything else as it is. */
export function asYaml(text: string): string {
  try {
    return toYaml(JSON.parse(text));
  } catch {
    return text;
  }
}
