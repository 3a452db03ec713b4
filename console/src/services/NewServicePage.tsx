import { useState, type SubmitEvent } from "react";
import { useMutation } from "urql";
import { Link, useLocation } from "wouter";
import { CreateServiceDocument, type ServiceDeploymentAttributes } from "../api/generated";
import { parseMapping } from "../text/parseMapping";
import { toYaml } from "../text/yaml";
import { Code } from "../ui/Code";
import { FormBar } from "../ui/FormBar";
import { Combobox } from "../ui/Combobox";
import { toast } from "../ui/toast";
import { draftOf, missing, type Draft } from "./draft";
import { useTargets } from "./targets";
import "../pipelines/pipelines.css";

const INITIAL: Draft = { cluster: "", repository: "", ref: "main", folder: "", name: "", namespace: "" };

type Field = { readonly key: keyof Draft; readonly title: string; readonly note: string };
const FIELDS: readonly Field[] = [
  { key: "name", title: "Name", note: "unique in its cluster" },
  { key: "namespace", title: "Default namespace", note: "for objects without a namespace" },
  { key: "ref", title: "Branch, tag or commit", note: "revision to deploy" },
  { key: "folder", title: "Folder", note: "with manifests, such as a chart or a kustomization" },
];

/** Creates a service from a form or from YAML; both show the same values. */
export function NewServicePage() {
  const [created, create] = useMutation(CreateServiceDocument);
  // Links from a repository or a cluster fill in their name.
  const [start] = useState(() => {
    const given = new URLSearchParams(location.search);
    return toYaml({ ...INITIAL, cluster: given.get("cluster") ?? "", repository: given.get("repository") ?? "" });
  });
  const [text, setText] = useState(start);
  const [, go] = useLocation();
  const { value, problem } = parseMapping(text);
  const draft = draftOf(value);
  const { handles, urls, clusterId, repositoryId } = useTargets(draft.cluster, draft.repository);
  const isLookingUp = clusterId === undefined || repositoryId === undefined;
  const wrong = problem === "" ? missing(draft, { clusterId, repositoryId }) : [problem];
  const set = (key: keyof Draft, next: string) => setText(toYaml({ ...draft, [key]: next }));
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    if (clusterId == null || repositoryId == null) return;
    const attributes: ServiceDeploymentAttributes = {
      name: draft.name,
      namespace: draft.namespace,
      repositoryId,
      git: { ref: draft.ref, folder: draft.folder },
    };
    const result = await create({ clusterId, attributes });
    if (result.error !== undefined || result.data?.createServiceDeployment == null) return;
    toast(`Service ${draft.name} created`);
    go(`/services/${result.data.createServiceDeployment.id}`);
  };
  return (
    <>
      <p className="crumbs">
        <Link href="/services">Services</Link>
      </p>
      <div className="bar">
        <h1>New service</h1>
      </div>
      <div className="editor-pair">
        <form className="form card" onSubmit={(event) => void submit(event)}>
          <label>
            Cluster <small>type part of its name</small>
            <Combobox value={draft.cluster} offered={handles} onChange={(next) => set("cluster", next)} />
          </label>
          <label>
            Repository <small>type part of its URL</small>
            <Combobox value={draft.repository} offered={urls} onChange={(next) => set("repository", next)} />
          </label>
          {FIELDS.map(({ key, title, note }) => (
            <label key={key}>
              {title} <small>{note}</small>
              <input value={draft[key]} onChange={(event) => set(key, event.target.value)} maxLength={255} />
            </label>
          ))}
          <FormBar action="Create service" busy={created.fetching || isLookingUp} isTouched={text !== start} complaints={wrong} error={created.error} onCancel={() => go("/services")} />
        </form>
        <Code text={text} label="Service as YAML" onChange={setText} />
      </div>
    </>
  );
}
