import { useEffect, useId, useRef, useState } from "react";
import { useQuery } from "urql";
import { ManifestDocument } from "../api/generated";
import { asYaml } from "../text/yaml";
import { CopyButton } from "../ui/CopyButton";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import "../ui/confirm.css";
import "./manage.css";

/** Kind and name of a resource in manifests; a service is `cluster/name`. */
export type Declared = { readonly kind: string; readonly name: string };

const END = "END_OF_MANIFEST";

/** Command for a shell that applies a manifest. */
export const applyCommand = (yaml: string): string => `towline apply -f - <<'${END}'\n${yaml}${yaml.endsWith("\n") ? "" : "\n"}${END}`;

function Manifest({ kind, name }: Declared) {
  const [{ data, error }] = useQuery({ query: ManifestDocument, variables: { kind, name }, requestPolicy: "network-only" });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={6} />;
  const yaml = asYaml(data.manifest);
  return (
    <>
      <pre className="block" tabIndex={0} aria-label={`${kind} ${name} as YAML`}>
        {yaml}
      </pre>
      <p className="quiet">Values of secrets and fields at their defaults are left out.</p>
      <div className="bar">
        <CopyButton text={yaml} title="Copy as YAML" />
        <CopyButton text={applyCommand(yaml)} title="Copy as a command" />
      </div>
    </>
  );
}

function ManifestDialog({ kind, name, onClose }: Declared & { readonly onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} className="confirm action-dialog manifest" aria-labelledby={heading} onClose={onClose}>
      <h2 id={heading}>
        {kind} {name}
      </h2>
      <Manifest kind={kind} name={name} />
      <div className="bar">
        <span className="fill" />
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
    </dialog>
  );
}

/** Button that shows a resource as its manifest, and as the command that applies it. */
export function AsYaml({ kind, name }: Declared) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button type="button" aria-haspopup="dialog" onClick={() => setOpen(true)}>
        As YAML…
      </button>
      {isOpen && <ManifestDialog kind={kind} name={name} onClose={() => setOpen(false)} />}
    </>
  );
}
