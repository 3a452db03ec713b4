import { lazy, useState } from "react";
import { useMutation, useQuery, useSubscription } from "urql";
import { Link, useLocation, useParams } from "wouter";
import { DeletePipelineDocument, PausePipelineDocument, PipelineDeltaDocument, PipelineDocument, ResumePipelineDocument, RetryStageDocument, type PipelineQuery } from "../api/generated";
import { Age } from "../ui/Age";
import { Confirm } from "../ui/Confirm";
import { NotShown, NotThere } from "../ui/NotThere";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Status } from "../ui/Status";
import { Tabs } from "../ui/Tabs";
import { toast } from "../ui/toast";
import { Board } from "./Board";

const Graph = lazy(async () => ({ default: (await import("./Graph")).Graph }));

type Pipeline = NonNullable<PipelineQuery["pipeline"]>;

function Actions({ pipeline }: { readonly pipeline: Pipeline }) {
  const [asking, ask] = useState(false);
  const [paused, pause] = useMutation(PausePipelineDocument);
  const [resumed, resume] = useMutation(ResumePipelineDocument);
  const [retried, retry] = useMutation(RetryStageDocument);
  const [deleted, remove] = useMutation(DeletePipelineDocument);
  const [, go] = useLocation();
  const error = paused.error ?? resumed.error ?? retried.error ?? deleted.error;
  const failed = pipeline.stages.filter(({ health }) => health === "FAILED");
  const end = async () => {
    const result = await remove({ id: pipeline.id });
    ask(false);
    if (result.error === undefined) go("/pipelines");
  };
  return (
    <>
      {failed.map(({ id, name }) => (
        <button key={id} type="button" onClick={() => void retry({ id: pipeline.id, stage: name }).then(({ error: no }) => no === undefined && toast(`${name} is tried again.`))}>
          Try {name} again
        </button>
      ))}
      {pipeline.paused === null ? (
        <button type="button" onClick={() => void pause({ id: pipeline.id, reason: "paused in the console" })}>
          Pause
        </button>
      ) : (
        <button type="button" className="primary" onClick={() => void resume({ id: pipeline.id })}>
          Go on
        </button>
      )}
      <Link className="button" href={`/pipelines/${pipeline.id}/edit`}>
        Edit
      </Link>
      <button type="button" className="danger" onClick={() => ask(true)}>
        Delete…
      </button>
      {error !== undefined && <Problem error={error} />}
      {asking && (
        <Confirm title={`Delete ${pipeline.name}?`} action="Delete it" typed={pipeline.name} onConfirm={() => void end()} onCancel={() => ask(false)}>
          <p>Its services stay, each at the commit that it has now.</p>
        </Confirm>
      )}
    </>
  );
}

function Past({ pipeline }: { readonly pipeline: Pipeline }) {
  if (pipeline.history.length === 0) return <p className="quiet">Nothing has happened yet.</p>;
  return (
    <ol className="timeline card past">
      {pipeline.history.map((event, index) => (
        <li key={index}>
          <Age at={event.at} />
          <strong>{event.place}</strong>
          <span>{event.text}</span>
          <span className="quiet">{event.actor}</span>
        </li>
      ))}
    </ol>
  );
}

/** One pipeline: its board and its graph, what has happened, and what can be decided. */
export function PipelinePage() {
  const { id } = useParams<{ id: string }>();
  const [{ data, error }] = useQuery({ query: PipelineDocument, variables: { id } });
  useSubscription({ query: PipelineDeltaDocument });
  if (error !== undefined && data == null) return <NotShown error={error} what="pipeline" />;
  if (data == null) return <Skeleton lines={10} />;
  const { pipeline } = data;
  if (pipeline === null) return <NotThere what="pipeline" />;
  return (
    <article>
      <p className="crumbs">
        <Link href="/pipelines">Pipelines</Link>
      </p>
      <header className="bar">
        <h1>{pipeline.name}</h1>
        {pipeline.paused !== null && <Status tone="warn" pill>{`Paused: ${pipeline.paused}`}</Status>}
        <span className="fill" />
        <Actions pipeline={pipeline} />
      </header>
      <Tabs
        tabs={[
          { id: "board", title: "Board", content: () => <Board pipeline={pipeline} /> },
          { id: "graph", title: "Graph", content: () => <Graph pipeline={pipeline} /> },
          { id: "history", title: "What happened", content: () => <Past pipeline={pipeline} /> },
        ]}
      />
    </article>
  );
}
