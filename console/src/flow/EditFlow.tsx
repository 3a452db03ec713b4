import { useState } from "react";
import { useMutation } from "urql";
import { SaveFlowDocument, type ServiceFlowAttributes, type ServiceValuesQuery } from "../api/generated";
import { SERVICE_FLOW } from "../api/inputs";
import { validateInput } from "../text/validate";
import { parseMapping } from "../text/parseMapping";
import { toYaml } from "../text/yaml";
import { Code } from "../ui/Code";
import { FormBar } from "../ui/FormBar";
import { toast } from "../ui/toast";

type Flow = ServiceValuesQuery["serviceFlow"];

/** The API sends values as JSON text; the editor shows them as YAML. */
const written = ({ exports, imports }: Flow): string =>
  toYaml({
    exports: exports.map(({ name, type, value, shared }) => ({ name, type, value: parsed(value), ...(shared ? { shared } : {}) })),
    imports: imports.map(({ alias, sourceId, export: name, default: fallback }) => ({ alias, sourceId, export: name, ...(fallback === null ? {} : { default: parsed(fallback) }) })),
  });

function parsed(value: unknown): unknown {
  if (typeof value !== "string") return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

/** Input of the API, with every value as JSON text. */
function attributesOf(value: Record<string, unknown>): ServiceFlowAttributes {
  const list = (name: string) => (Array.isArray(value[name]) ? (value[name] as Record<string, unknown>[]) : []);
  return {
    ...value,
    exports: list("exports").map((entry) => ({ ...entry, value: JSON.stringify(entry["value"] ?? null) })),
    imports: list("imports").map((entry) => ("default" in entry ? { ...entry, default: JSON.stringify(entry["default"]) } : entry)),
  } as ServiceFlowAttributes;
}

/** YAML editor of exports and imports, checked before it is sent. */
export function EditFlow({ serviceId, flow, onDone }: { readonly serviceId: string; readonly flow: Flow; readonly onDone: () => void }) {
  const [text, setText] = useState(() => written(flow));
  const [{ error, fetching }, save] = useMutation(SaveFlowDocument);
  const { value, problem } = parseMapping(text);
  const attributes = attributesOf(value);
  const wrong = problem === "" ? validateInput(SERVICE_FLOW, "ServiceFlowAttributes", attributes) : [problem];
  const submit = async () => {
    const result = await save({ id: serviceId, attributes });
    if (result.error !== undefined) return;
    toast("Exports and imports saved. Services that import from this one are rendered again.");
    onDone();
  };
  return (
    <section className="card stack">
      <h2>Exports and imports</h2>
      <Code text={text} label="Exports and imports, as YAML" onChange={setText} />
      <FormBar action="Save" busy={fetching} complaints={wrong} error={error} onAction={() => void submit()} onCancel={onDone} />
    </section>
  );
}
