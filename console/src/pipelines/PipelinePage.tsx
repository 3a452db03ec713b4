import { useState } from "react";
import { useMutation, useQuery, useSubscription } from "urql";
import { Link, useLocation, useParams } from "wouter";
import { DeletePipelineDocument, PausePipelineDocument, PipelineDeltaDocument, PipelineDocument, ResumePipelineDocument, RetryStageDocument, type PipelineQuery } from "../api/generated";
import { Age } from "../ui/Age";
import { Confirm } from "../ui/Confirm";
import { loadable } from "../ui/loadable";
import { ResourceError, ResourceNotFound } from "../ui/ResourceNotFound";
import { Person } from "../ui/Person";
import { AsYaml } from "../manage/AsYaml";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { Tabs } from "../ui/Tabs";
import { toast } from "../ui/toast";
import { inverseOf, type Done } from "../undo/inverses";
import { Board } from "./Board";
import { Releases } from "./Releases";

const Graph = loadable(() => import("./Graph"), "Graph");

type Pipeline = NonNullable<PipelineQuery["pipeline"]>;

function Actions({ pipeline }: { readonly pipeline: Pipeline }) {
  const [dialog, setDialog] = useState(false);
  const [paused, pause] = useMutation(PausePipelineDocument);
  const [resumed, resume] = useMutation(ResumePipelineDocument);
  const [retried, retry] = useMutation(RetryStageDocument);
  const [deleted, remove] = useMutation(DeletePipelineDocument);
  const [, go] = useLocation();
  const error = paused.error ?? resumed.error ?? retried.error ?? deleted.error;
  const failed = pipeline.stages.filter(({ health }) => health === "FAILED");
  const say = (done: string) => (result: Done) => result.error === undefined && toast(`${pipeline.name} ${done}`, inverseOf(result, pipeline));
  const end = async () => {
    const result = await remove({ id: pipeline.id });
    setDialog(false);
    if (result.error === undefined) go("/pipelines");
  };
  return (
    <>
      {failed.map(({ id, name }) => (
        <button key={id} type="button" onClick={() => void retry({ id: pipeline.id, stage: name }).then(({ error: no }) => no === undefined && toast(`Retry of ${name} started`))}>
          Retry {name}
        </button>
      ))}
      {pipeline.paused === null ? (
        <button type="button" onClick={() => void pause({ id: pipeline.id, reason: "in the console" }).then(say("suspended"))}>
          Suspend
        </button>
      ) : (
        <button type="button" className="primary" onClick={() => void resume({ id: pipeline.id }).then(say("resumed"))}>
          Resume
        </button>
      )}
      <Link className="button" href={`/pipelines/${pipeline.id}/edit`}>
        Edit
      </Link>
      <button type="button" className="danger" onClick={() => setDialog(true)}>
        Delete…
      </button>
      {error !== undefined && <Problem error={error} />}
      {dialog && (
        <Confirm title={`Delete ${pipeline.name}?`} action="Delete pipeline" typed={pipeline.name} onConfirm={() => void end()} onCancel={() => setDialog(false)}>
          <p>Its services stay deployed at their current commits.</p>
        </Confirm>
      )}
    </>
  );
}

function Activity({ pipeline }: { readonly pipeline: Pipeline }) {
  if (pipeline.history.length === 0) return <p className="quiet">No activity yet.</p>;
  return (
    <ol className="timeline card activity">
      {[...pipeline.history].reverse().map((event, index, { length }) => (
        <li key={length - index}>
          <Age at={event.at} />
          <strong>{event.place}</strong>
          <span>{event.text}</span>
          <span className="quiet">
            <Person author={event.actor} />
          </span>
        </li>
      ))}
    </ol>
  );
}

const Stages = ({ pipeline }: { readonly pipeline: Pipeline }) => (
  <>
    <h2 className="hidden-text">Stages</h2>
    <Board pipeline={pipeline} />
  </>
);

/** Page of one pipeline: board, graph and activity. */
export function PipelinePage() {
  const { id } = useParams<{ id: string }>();
  const [{ data, error }] = useQuery({ query: PipelineDocument, variables: { id } });
  useSubscription({ query: PipelineDeltaDocument });
  if (error !== undefined && data == null) return <ResourceError error={error} kind="pipeline" />;
  if (data == null) return <Skeleton lines={10} />;
  const { pipeline } = data;
  if (pipeline === null) return <ResourceNotFound kind="pipeline" />;
  return (
    <article>
      <p className="crumbs">
        <Link href="/pipelines">Pipelines</Link>
      </p>
      <header className="bar">
        <h1>{pipeline.name}</h1>
        {pipeline.paused !== null && <Status state={STATES.suspended} detail={pipeline.paused} pill />}
        <span className="fill" />
        <Actions pipeline={pipeline} />
        <AsYaml kind="Pipeline" name={pipeline.name} />
      </header>
      <Tabs
        tabs={[
          { id: "board", title: "Board", content: () => <Stages pipeline={pipeline} /> },
          { id: "graph", title: "Graph", content: () => <Graph pipeline={pipeline} /> },
          { id: "releases", title: "Releases", content: () => <Releases id={pipeline.id} /> },
          { id: "history", title: "Activity", content: () => <Activity pipeline={pipeline} /> },
        ]}
      />
    </article>
  );
}
