import { useCallback, useState } from "react";
import { useQuery, useSubscription } from "urql";
import { Link } from "wouter";
import { PipelineDeltaDocument, PipelinesDocument } from "../api/generated";
import { QueryField } from "../lists/QueryField";
import { LABEL_CONDITIONS, useListFilter, type ListFilter } from "../lists/useListFilter";
import { Chips } from "../ui/Chips";
import { Empty } from "../ui/Empty";
import { More } from "../ui/More";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { useParam } from "../ui/useParam";
import { Board } from "./Board";
import { NoPipelines } from "./NoPipelines";
import { PipelineList } from "./PipelineList";

type BoardsProps = { readonly filter: ListFilter; readonly isFiltered: boolean; readonly after: string | null };

/** One page of boards, followed by the next page on demand. */
function Boards({ filter, isFiltered, after }: BoardsProps) {
  const [{ data, error }] = useQuery({ query: PipelinesDocument, variables: { ...filter, after } });
  const [isMore, setMore] = useState(false);
  const more = useCallback(() => setMore(true), []);
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={10} />;
  const { edges, pageInfo } = data.pipelines;
  if (edges.length === 0 && after === null) return <NoPipelines isFiltered={isFiltered} />;
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
      {pageInfo.hasNextPage && (isMore ? <Boards filter={filter} isFiltered={isFiltered} after={pageInfo.endCursor} /> : <More onMore={more} />)}
    </>
  );
}

const VIEWS = [
  ["", "Boards"],
  ["list", "List"],
] as const;

/** All pipelines with live updates, as boards or as a list. */
export function PipelinesPage() {
  useSubscription({ query: PipelineDeltaDocument });
  const { filter, problems, isFiltered } = useListFilter();
  const [view] = useParam("view");
  return (
    <>
      <div className="bar">
        <h1>Pipelines</h1>
        <QueryField label="Filter pipelines" conditions={LABEL_CONDITIONS} problems={problems} />
        <Chips label="View" name="view" options={VIEWS} />
        <span className="fill" />
        <Link className="button primary" href="/pipelines/new">
          New pipeline
        </Link>
      </div>
      {view === "list" && <PipelineList filter={filter} problems={problems} isFiltered={isFiltered} />}
      {view !== "list" && problems.length > 0 && <Empty title="No pipelines shown">Correct the filter first.</Empty>}
      {view !== "list" && problems.length === 0 && <Boards filter={filter} isFiltered={isFiltered} after={null} />}
    </>
  );
}
