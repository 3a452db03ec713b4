import { useState, type SubmitEvent } from "react";
import { useMutation } from "urql";
import { Link, useLocation } from "wouter";
import { CreateServiceDocument, type ServiceDeploymentAttributes } from "../api/generated";
import { judged } from "../text/judge";
import { toYaml } from "../text/yaml";
import { Code } from "../ui/Code";
import { FormBar } from "../ui/FormBar";
import { Suggested } from "../ui/Suggested";
import { toast } from "../ui/toast";
import { draftOf, missing, type Draft } from "./draft";
import { useTargets } from "./targets";
import "../pipelines/pipelines.css";

const BEGUN: Draft = { cluster: "", repository: "", ref: "main", folder: "", name: "", namespace: "" };

type Field = { readonly key: keyof Draft; readonly title: string; readonly note: string };
const FIELDS: readonly Field[] = [
  { key: "name", title: "Name", note: "unique in its cluster" },
  { key: "namespace", title: "Namespace", note: "where its objects go that name none" },
  { key: "ref", title: "Branch, tag or commit", note: "what it follows" },
  { key: "folder", title: "Folder", note: "of manifests, kustomize, Helm or Jsonnet" },
];

/** Defines a service: a form, and the same as YAML beside it. */
export function NewServicePage() {
  const [created, create] = useMutation(CreateServiceDocument);
  const [text, setText] = useState(toYaml(BEGUN));
  const [, go] = useLocation();
  const { value, problem } = judged(text);
  const draft = draftOf(value);
  const { handles, urls, clusterId, repositoryId } = useTargets(draft.cluster, draft.repository);
  const isSought = clusterId === undefined || repositoryId === undefined;
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
    toast(`${draft.name} is defined and being rendered.`);
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
            Cluster <small>by a part of its name</small>
            <Suggested value={draft.cluster} offered={handles} onChange={(next) => set("cluster", next)} />
          </label>
          <label>
            Repository <small>by a part of its address</small>
            <Suggested value={draft.repository} offered={urls} onChange={(next) => set("repository", next)} />
          </label>
          {FIELDS.map(({ key, title, note }) => (
            <label key={key}>
              {title} <small>{note}</small>
              <input value={draft[key]} onChange={(event) => set(key, event.target.value)} maxLength={255} />
            </label>
          ))}
          <FormBar action="Define it" busy={created.fetching || isSought} isBegun={text !== toYaml(BEGUN)} complaints={wrong} error={created.error} onCancel={() => go("/services")} />
        </form>
        <Code text={text} label="The service as YAML" onChange={setText} />
      </div>
    </>
  );
}
