import { useCallback, useMemo } from "react";
import { useQuery } from "urql";
import { useLocation } from "wouter";
import { ProjectsDocument, type FleetFilter, type MapRowFragment } from "../api/generated";
import { isOffline } from "../clusters/offline";
import { NoClusters } from "../clusters/NoClusters";
import { useNow } from "../live/clock";
import { QueryField } from "../lists/QueryField";
import { SERVICE_CONDITIONS, useServiceFilter } from "../lists/serviceFilter";
import { counted } from "../text/counts";
import { Empty } from "../ui/Empty";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { useParam } from "../ui/useParam";
import { partsOf, tagNames } from "./grouping";
import { HealthMap } from "./HealthMap";
import { LastHour } from "./LastHour";
import { cellSize, countOf, type Hit } from "./layout";
import { namesIn } from "./names";
import { Summary } from "./Summary";
import { TimeTravel } from "./TimeTravel";
import { useFleetAt, useLiveFleet } from "./useFleet";
import { useMoment } from "./useMoment";
import { NeedsAttention } from "./NeedsAttention";
import "./fleet.css";

const COARSE = 10_000;

/** Start page: map of all services, services that need attention, and recent changes. */
export function FleetPage() {
  const [q] = useParam("q");
  const [status] = useParam("status");
  const { filter, problems, isReady } = useServiceFilter(q, status);
  const [at] = useMoment();
  const live = useLiveFleet(filter, at !== "" || !isReady);
  const then = useFleetAt(at === "" ? null : at);
  const { rows, error, moves } = at === "" ? live : then;
  // The offline check runs every 10 s, not with every tick of the clock.
  const now = Math.floor(useNow() / COARSE) * COARSE;
  return (
    <>
      <div className="bar">
        <h1>Fleet</h1>
        <QueryField label="Filter services" conditions={SERVICE_CONDITIONS} problems={problems} />
        <GroupBy rows={rows ?? []} />
        <span className="fill" />
        <TimeTravel />
      </div>
      {error !== undefined && rows === undefined && <Problem error={error} />}
      {rows === undefined ? (
        <Skeleton lines={10} />
      ) : (
        <>
          <Summary rows={rows} />
          <div className="fleet">
            <div className="stack">
              {rows.length === 0 ? <Nothing filter={filter} /> : <Maps rows={rows} filter={filter} now={now} past={at !== ""} />}
            </div>
            <div className="stack">
              {at === "" && <NeedsAttention rows={rows} filter={filter} now={now} moves={moves} />}
              <LastHour until={at === "" ? null : at} moves={moves} />
            </div>
          </div>
        </>
      )}
    </>
  );
}

function Maps({ rows, filter, now, past }: { readonly rows: readonly MapRowFragment[]; readonly filter: FleetFilter; readonly now: number; readonly past: boolean }) {
  const [by] = useParam("group");
  const [, go] = useLocation();
  const [{ data }] = useQuery({ query: ProjectsDocument, pause: by !== "project" });
  const projects = useMemo(() => new Map(data?.projects.edges.map(({ node }) => [node.id, node.name])), [data]);
  const cell = useMemo(() => cellSize(countOf(rows)), [rows]);
  const parts = useMemo(() => partsOf(rows, by, projects), [rows, by, projects]);
  const isStale = useCallback((pingedAt: string | null) => !past && isOffline(pingedAt, now), [now, past]);
  const asked = useMemo(() => ({ q: filter.q ?? null, status: filter.status ?? null, repositoryId: filter.repositoryId ?? null }), [filter]);
  const open = async ({ row, index }: Hit) => {
    const service = index === null ? undefined : (await namesIn(row.id, asked))[index];
    go(service === undefined ? `/clusters/${row.handle}` : `/services/${service.id}`);
  };
  const nameOf = useCallback(
    async ({ row, index }: Hit) => (index === null || past ? undefined : (await namesIn(row.id, asked))[index]?.name),
    [asked, past],
  );
  return parts.map(({ title, rows: part }) => (
    <section key={title} className="card">
      {title !== "" && (
        <h2>
          {title} <small>{counted(part.length, "cluster")}</small>
        </h2>
      )}
      <HealthMap rows={part} cell={cell} isStale={isStale} onOpen={(hit) => void open(hit)} nameOf={nameOf} />
    </section>
  ));
}

function GroupBy({ rows }: { readonly rows: readonly MapRowFragment[] }) {
  const [by, group] = useParam("group");
  const tags = useMemo(() => tagNames(rows).slice(0, 12), [rows]);
  return (
    <select aria-label="Group by" value={by} onChange={(event) => group(event.target.value)}>
      <option value="">No grouping</option>
      <option value="project">By project</option>
      {tags.map((tag) => (
        <option key={tag} value={`tag:${tag}`}>
          By {tag}
        </option>
      ))}
    </select>
  );
}

function Nothing({ filter }: { readonly filter: FleetFilter }) {
  if (Object.values(filter).some((value) => value != null))
    return <Empty title="No matching services">Remove a filter, or search everything with Ctrl-K.</Empty>;
  return <NoClusters />;
}
