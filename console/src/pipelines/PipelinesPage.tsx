import { useCallback, useState } from "react";
import { useQuery, useSubscription } from "urql";
import { Link } from "wouter";
import { PipelineDeltaDocument, PipelinesDocument } from "../api/generated";
import { Empty } from "../ui/Empty";
import { More } from "../ui/More";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Status } from "../ui/Status";
import { Board } from "./Board";

/** A page of boards, and after it the next one. */
function Boards({ after }: { readonly after: string | null }) {
  const [{ data, error }] = useQuery({ query: PipelinesDocument, variables: { after } });
  const [isMore, setMore] = useState(false);
  const more = useCallback(() => setMore(true), []);
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={10} />;
  const { edges, pageInfo } = data.pipelines;
  if (edges.length === 0 && after === null)
    return (
      <Empty title="No pipelines yet">
        <p>A pipeline moves a change from stage to stage, past gates that people and time open.</p>
        <Link className="button primary" href="/pipelines/new">
          Define the first one
        </Link>
      </Empty>
    );
  return (
    <>
      {edges.map(({ node }) => (
        <article key={node.id} className="pipeline">
          <header className="bar">
            <h2>
              <Link href={`/pipelines/${node.id}`}>{node.name}</Link>
            </h2>
            {node.paused !== null && <Status tone="warn" pill>{`Paused: ${node.paused}`}</Status>}
          </header>
          <Board pipeline={node} />
        </article>
      ))}
      {pageInfo.hasNextPage && (isMore ? <Boards after={pageInfo.endCursor} /> : <More onMore={more} />)}
    </>
  );
}

/** Every pipeline as a board, moving as releases do. */
export function PipelinesPage() {
  useSubscription({ query: PipelineDeltaDocument });
  return (
    <>
      <div className="bar">
        <h1>Pipelines</h1>
        <span className="fill" />
        <Link className="button primary" href="/pipelines/new">
          New pipeline
        </Link>
      </div>
      <Boards after={null} />
    </>
  );
}
