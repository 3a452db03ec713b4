import { useState, type SubmitEvent } from "react";
import { useMutation, useQuery } from "urql";
import { Link, useLocation } from "wouter";
import { ChoicesDocument, CreateServiceDocument, type ServiceDeploymentAttributes } from "../api/generated";
import { judged } from "../text/judge";
import { toYaml } from "../text/yaml";
import { Code } from "../ui/Code";
import { FormBar } from "../ui/FormBar";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { toast } from "../ui/toast";
import { draftOf, missing, type Draft } from "./draft";
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
  const [{ data, error }] = useQuery({ query: ChoicesDocument });
  const [created, create] = useMutation(CreateServiceDocument);
  const [text, setText] = useState(toYaml(BEGUN));
  const [, go] = useLocation();
  const { value, problem } = judged(text);
  const draft = draftOf(value);
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={10} />;
  const clusters = data.clusters.edges.map(({ node }) => node);
  const repositories = data.gitRepositories.edges.map(({ node }) => node);
  const wrong = problem === "" ? missing(draft, clusters, repositories) : [problem];
  const set = (key: keyof Draft, next: string) => setText(toYaml({ ...draft, [key]: next }));
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const cluster = clusters.find(({ handle }) => handle === draft.cluster);
    const repository = repositories.find(({ url }) => url === draft.repository);
    if (cluster === undefined || repository === undefined) return;
    const attributes: ServiceDeploymentAttributes = {
      name: draft.name,
      namespace: draft.namespace,
      repositoryId: repository.id,
      git: { ref: draft.ref, folder: draft.folder },
    };
    const result = await create({ clusterId: cluster.id, attributes });
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
            Cluster
            <select value={draft.cluster} onChange={(event) => set("cluster", event.target.value)} required>
              <option value="">choose one</option>
              {clusters.map(({ id, handle }) => (
                <option key={id}>{handle}</option>
              ))}
            </select>
          </label>
          <label>
            Repository
            <select value={draft.repository} onChange={(event) => set("repository", event.target.value)} required>
              <option value="">choose one</option>
              {repositories.map(({ id, url }) => (
                <option key={id}>{url}</option>
              ))}
            </select>
          </label>
          {FIELDS.map(({ key, title, note }) => (
            <label key={key}>
              {title} <small>{note}</small>
              <input value={draft[key]} onChange={(event) => set(key, event.target.value)} maxLength={255} />
            </label>
          ))}
          <FormBar action="Define it" busy={created.fetching} complaints={wrong} error={created.error} onCancel={() => go("/services")} />
        </form>
        <Code text={text} label="The service as YAML" onChange={setText} />
      </div>
    </>
  );
}
