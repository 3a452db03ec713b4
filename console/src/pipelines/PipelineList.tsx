import { useMemo } from "react";
import { useClient } from "urql";
import { Link } from "wouter";
import { PausePipelineDocument, PipelineRowsDocument, ResumePipelineDocument, type PipelineRowFragment } from "../api/generated";
import { BulkButtons } from "../bulk/BulkButtons";
import { List, type Column } from "../lists/List";
import type { ListFilter } from "../lists/useListFilter";
import { bulkAction } from "../manage/bulkAction";
import type { Action, Permission } from "../manage/kind";
import { Age } from "../ui/Age";
import { STATES, stageState, type State } from "../ui/states";
import { Status } from "../ui/Status";
import { NoPipelines } from "./NoPipelines";
import { waitingGates } from "./stages";

// A row has stages and gates: the API allows no larger page.
const MAX_ROWS = 50;

type Pipeline = PipelineRowFragment;

// The first of these that a stage has is the state of a pipeline in which none failed.
const WORST = ["PROGRESSING", "UNKNOWN"];

/** State of a pipeline: what stops it, else the worst of its stages. */
export function pipelineState(pipeline: Pipeline): State {
  if (pipeline.paused !== null) return STATES.suspended;
  const healths = pipeline.stages.map(({ health }) => health as string);
  if (healths.includes("FAILED")) return STATES.failed;
  if (waitingGates(pipeline).length > 0) return STATES.awaitingApproval;
  return stageState(WORST.find((health) => healths.includes(health)) ?? healths[0] ?? "UNKNOWN");
}

const newest = ({ stages }: Pipeline) => stages[0]?.release ?? null;

const COLUMNS: readonly Column<Pipeline>[] = [
  { id: "pipeline", title: "Pipeline", isLong: true, sort: ({ name }) => name, cell: ({ id, name }) => <Link href={`/pipelines/${id}`}>{name}</Link> },
  { id: "state", title: "State", isLong: true, sort: (pipeline) => pipelineState(pipeline).label, cell: (pipeline) => <Status state={pipelineState(pipeline)} detail={pipeline.paused ?? ""} pill /> },
  {
    id: "stages",
    title: "Stages",
    className: "wide",
    cell: ({ stages }) => (
      <ul className="stage-states">
        {stages.map(({ id, name, health, release }) => (
          <li key={id}>
            {name} {release !== null && <span className="quiet">#{release.number}</span>} <Status state={stageState(health)} />
          </li>
        ))}
      </ul>
    ),
  },
  { id: "waiting", title: "Waits at", isLong: true, sort: (pipeline) => waitingGates(pipeline).length, cell: (pipeline) => waitingGates(pipeline).map(({ name }) => name).join(", ") },
  { id: "release", title: "Newest release", sort: (pipeline) => newest(pipeline)?.seenAt, cell: (pipeline) => <Age at={newest(pipeline)?.seenAt ?? null} /> },
];

const PERMISSION: Permission = { verb: "PAUSE", kind: "PIPELINE" };

const SUSPEND: Action<Pipeline> = {
  title: "Suspend pipelines",
  permission: PERMISSION,
  consequence: () => "No release enters a stage until the pipeline resumes.",
  when: ({ paused }) => paused === null,
  command: (_, { name }) => ["pipelines", "pause", name],
  run: (client, _, { id }) => client.mutation(PausePipelineDocument, { id, reason: "in the console" }).toPromise(),
  done: "Pipelines suspended",
};

const RESUME: Action<Pipeline> = {
  title: "Resume pipelines",
  permission: PERMISSION,
  consequence: () => "Waiting releases go on as soon as their gates are open.",
  when: ({ paused }) => paused !== null,
  command: (_, { name }) => ["pipelines", "resume", name],
  run: (client, _, { id }) => client.mutation(ResumePipelineDocument, { id }).toPromise(),
  done: "Pipelines resumed",
};

const NAMES = { id: ({ id }: Pipeline) => id, name: ({ name }: Pipeline) => name, noun: ["pipeline", "pipelines"] } as const;

type Props = { readonly filter: ListFilter; readonly problems: readonly string[]; readonly isFiltered: boolean };

/** Pipelines as a table, one row each. */
export function PipelineList({ filter, problems, isFiltered }: Props) {
  const client = useClient();
  const operations = useMemo(() => [SUSPEND, RESUME].map((action) => bulkAction(client, action, NAMES)), [client]);
  return (
    <List
      label="Pipelines"
      counted={NAMES.noun}
      columns={COLUMNS}
      query={PipelineRowsDocument}
      variables={filter}
      pick={({ pipelines }) => pipelines}
      id={NAMES.id}
      name={NAMES.name}
      problems={problems}
      maxPage={MAX_ROWS}
      bulk={(pipelines) => <BulkButtons operations={operations} targets={pipelines} />}
      empty={<NoPipelines isFiltered={isFiltered} />}
    />
  );
}
