import { useCallback, useState } from "react";
import { useQuery, useSubscription } from "urql";
import { Link } from "wouter";
import { PipelineDeltaDocument, PipelinesDocument } from "../api/generated";
import { Empty } from "../ui/Empty";
import { More } from "../ui/More";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { Board } from "./Board";

/** One page of boards, followed by the next page on demand. */
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
        <p>A pipeline promotes a release from stage to stage. Gates between stages wait for approvals, checks or time.</p>
        <Link className="button primary" href="/pipelines/new">
          Create pipeline
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
            {node.paused !== null && <Status state={STATES.suspended} detail={node.paused} pill />}
          </header>
          <Board pipeline={node} />
        </article>
      ))}
      {pageInfo.hasNextPage && (isMore ? <Boards after={pageInfo.endCursor} /> : <More onMore={more} />)}
    </>
  );
}

/** All pipelines as boards with live updates. */
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
