import { useState } from "react";
import { useMutation } from "urql";
import { SaveFlowDocument, type ServiceFlowAttributes, type ServiceValuesQuery } from "../api/generated";
import { SERVICE_FLOW } from "../api/inputs";
import { conform } from "../text/conform";
import { judged } from "../text/judge";
import { toYaml } from "../text/yaml";
import { Code } from "../ui/Code";
import { FormBar } from "../ui/FormBar";
import { toast } from "../ui/toast";

type Flow = ServiceValuesQuery["serviceFlow"];

/** A value of the flow travels as JSON text; people write it as it is. */
const written = ({ exports, imports }: Flow): string =>
  toYaml({
    exports: exports.map(({ name, type, value, shared }) => ({ name, type, value: parsed(value), ...(shared ? { shared } : {}) })),
    imports: imports.map(({ alias, sourceId, export: name, default: other }) => ({ alias, sourceId, export: name, ...(other === null ? {} : { default: parsed(other) }) })),
  });

function parsed(value: unknown): unknown {
  if (typeof value !== "string") return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

/** What the API takes: every value as JSON text. */
function attributesOf(value: Record<string, unknown>): ServiceFlowAttributes {
  const list = (name: string) => (Array.isArray(value[name]) ? (value[name] as Record<string, unknown>[]) : []);
  return {
    ...value,
    exports: list("exports").map((one) => ({ ...one, value: JSON.stringify(one["value"] ?? null) })),
    imports: list("imports").map((one) => ("default" in one ? { ...one, default: JSON.stringify(one["default"]) } : one)),
  } as ServiceFlowAttributes;
}

/** What a service exports and imports as YAML, checked before it is sent. */
export function EditFlow({ serviceId, flow, onDone }: { readonly serviceId: string; readonly flow: Flow; readonly onDone: () => void }) {
  const [text, setText] = useState(() => written(flow));
  const [{ error, fetching }, save] = useMutation(SaveFlowDocument);
  const { value, problem } = judged(text);
  const attributes = attributesOf(value);
  const wrong = problem === "" ? conform(SERVICE_FLOW, "ServiceFlowAttributes", attributes) : [problem];
  const submit = async () => {
    const result = await save({ id: serviceId, attributes });
    if (result.error !== undefined) return;
    toast("Saved. Who imports from it is rendered again.");
    onDone();
  };
  return (
    <section className="card stack">
      <h2>What it exports and imports</h2>
      <Code text={text} label="Exports and imports, as YAML" onChange={setText} />
      <FormBar action="Save" busy={fetching} complaints={wrong} error={error} onAction={() => void submit()} onCancel={onDone} />
    </section>
  );
}
