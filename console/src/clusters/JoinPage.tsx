import { useEffect, useState, type SubmitEvent } from "react";
import { useMutation, useQuery, useSubscription } from "urql";
import { Link } from "wouter";
import { ClusterDeltaDocument, ClusterDocument, CreateClusterDocument } from "../api/generated";
import { textOf } from "../ui/form";
import { FormBar } from "../ui/FormBar";
import { Secret } from "../ui/Secret";
import { Status } from "../ui/Status";
import "./clusters.css";

/** `region=eu stage=prod` as tags. */
export function tagsOf(text: string): { readonly name: string; readonly value: string }[] {
  return text
    .split(/[\s,]+/)
    .filter((one) => one !== "")
    .map((one) => {
      const [name = "", ...rest] = one.split("=");
      return { name, value: rest.join("=") };
    });
}

function command(token: string): string {
  return [
    "helm upgrade --install towline-agent --namespace towline --create-namespace \\",
    `  ${location.origin}/ext/v1/agent/chart \\`,
    `  --set secrets.deployToken=${token} --set consoleUrl=${location.origin}`,
  ].join("\n");
}

function Arrival({ id, handle }: { readonly id: string; readonly handle: string }) {
  const [{ data }] = useQuery({ query: ClusterDocument, variables: { handle } });
  useSubscription({ query: ClusterDeltaDocument, variables: { id } });
  const cluster = data?.cluster;
  const isHere = cluster?.pingedAt != null;
  useEffect(() => {
    document.title = isHere ? `${handle} has arrived · Towline` : "Towline";
    return () => {
      document.title = "Towline";
    };
  }, [isHere, handle]);
  if (!isHere)
    return (
      <li className="card" aria-live="polite">
        <h2>It arrives</h2>
        <Status tone="busy">Waiting for its agent. This page sees it come by itself.</Status>
      </li>
    );
  return (
    <li className="card done" aria-live="polite">
      <h2>It has arrived</h2>
      <p className="arrived">
        <Status tone="ok">Connected</Status> Kubernetes {cluster.currentVersion ?? "…"}, {cluster.nodeCount ?? "…"} nodes, agent {cluster.agentVersion ?? "…"}
      </p>
      <div className="bar">
        <Link className="button primary" href="/services/new">
          Define its first service
        </Link>
        <Link className="button" href={`/clusters/${handle}`}>
          Look at it
        </Link>
      </div>
    </li>
  );
}

/** Registers a cluster, shows the command that joins it, and watches it arrive. */
export function JoinPage() {
  const [{ data, error, fetching }, create] = useMutation(CreateClusterDocument);
  const [isOpen, setOpen] = useState(true);
  const made = data?.createCluster;
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const result = await create({ attributes: { name: textOf(form, "name"), tags: tagsOf(textOf(form, "tags")) } });
    if (result.error === undefined) setOpen(false);
  };
  return (
    <>
      <p className="crumbs">
        <Link href="/clusters">Clusters</Link>
      </p>
      <h1>Join a cluster</h1>
      <ol className="steps">
        <li className={made == null ? "card" : "card done"}>
          <h2>Give it a name</h2>
          {isOpen ? (
            <form className="form" onSubmit={(event) => void submit(event)}>
              <label>
                Name
                <input name="name" required maxLength={255} autoFocus placeholder="prod-eu" />
              </label>
              <label>
                Tags <small>by which services choose clusters: name=value, separated by blanks</small>
                <input name="tags" placeholder="region=eu-west stage=prod" />
              </label>
              <FormBar action="Register it" busy={fetching} error={error} />
            </form>
          ) : (
            <p>{made?.handle}</p>
          )}
        </li>
        {made?.deployToken != null && (
          <>
            <li className="card">
              <h2>Run this where kubectl reaches it</h2>
              <p className="quiet">The agent opens one connection to here, on port 8444. Nothing has to reach into the cluster.</p>
              <Secret title="With Helm" text={command(made.deployToken)} />
            </li>
            <Arrival id={made.id} handle={made.handle} />
          </>
        )}
      </ol>
    </>
  );
}
