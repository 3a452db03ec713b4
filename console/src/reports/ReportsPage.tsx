import { useQuery } from "urql";
import { DeliveryDocument, DeliveryGroupsDocument, DeploymentsDocument, type DeliveryQuery, type ReportPeriod } from "../api/generated";
import { useNow } from "../live/clock";
import { Chips } from "../ui/Chips";
import { FilterField } from "../ui/FilterField";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Tabs } from "../ui/Tabs";
import { useParam } from "../ui/useParam";
import { BarChart } from "./BarChart";
import { Breakdown } from "./Breakdown";
import { DeploymentList } from "./DeploymentList";
import { FleetTimeline } from "./FleetTimeline";
import { percent, rate, seconds } from "./format";
import { trendOf } from "./scale";
import type { ReportWindow } from "./window";
import "./reports.css";

const DAY = 86_400_000;
const REFRESH = 300_000;
const MAX_DEPLOYMENTS = 500;
const SPANS: readonly (readonly [string, string, number, ReportPeriod])[] = [
  ["7", "7 days", 7, "DAY"],
  ["", "30 days", 30, "DAY"],
  ["90", "90 days", 90, "WEEK"],
  ["365", "1 year", 365, "MONTH"],
];
const LENGTHS: Readonly<Record<ReportPeriod, number>> = { DAY, WEEK: 7 * DAY, MONTH: 30 * DAY };

type FigureProps = { readonly title: string; readonly value: string; readonly note: string; readonly trend: string };

function Figure({ title, value, note, trend }: FigureProps) {
  return (
    <div className="card report-figure">
      <h2>{title}</h2>
      <strong>{value}</strong>
      <span className="quiet">{note}</span>
      <span className="quiet">{trend === "" ? "no earlier period to compare" : `${trend} against the period before`}</span>
    </div>
  );
}

function Figures({ deliveryReport: now, previous: before }: DeliveryQuery) {
  const { total } = now;
  return (
    <div className="dora">
      <Figure
        title="Deployments"
        value={rate(now.deploymentsPerDay)}
        note={`${total.healthy.toLocaleString("en")} of ${total.begun.toLocaleString("en")} became healthy`}
        trend={trendOf(now.deploymentsPerDay, before.deploymentsPerDay)}
      />
      <Figure title="Lead time" value={seconds(now.leadP50)} note={`p90 ${seconds(now.leadP90)}, from commit to healthy`} trend={trendOf(now.leadP50, before.leadP50)} />
      <Figure title="Change failure rate" value={percent(total.failureRate)} note={`${total.failed.toLocaleString("en")} failed, degraded or were reverted`} trend={trendOf(total.failureRate, before.total.failureRate)} />
      <Figure title="Time to restore" value={seconds(now.restoreP50)} note={`p90 ${seconds(now.restoreP90)}`} trend={trendOf(now.restoreP50, before.restoreP50)} />
    </div>
  );
}

/** Deployments of a window: list or time line. */
function Deployments({ window, view }: { readonly window: ReportWindow; readonly view: "list" | "timeline" }) {
  const [{ data, error }] = useQuery({ query: DeploymentsDocument, variables: window });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={6} />;
  const { deploymentHistory: found } = data;
  return (
    <>
      {found.length === MAX_DEPLOYMENTS && <p className="quiet">The newest {MAX_DEPLOYMENTS} deployments of the period. Filter by project, cluster or labels to see more.</p>}
      {view === "list" ? <DeploymentList deployments={found} /> : <FleetTimeline deployments={found} since={window.since} until={window.until} />}
    </>
  );
}

function Overview({ data, window, by }: { readonly data: DeliveryQuery; readonly window: ReportWindow; readonly by: ReportPeriod }) {
  const [chosen, choose] = useParam("period");
  const selected = chosen === "" ? -1 : Number(chosen);
  const begin = new Date(data.deliveryReport.since).getTime();
  const end = new Date(window.until).getTime();
  const at = (index: number): number => begin + index * LENGTHS[by];
  const rows = data.deliveryReport.parts.filter((_, index) => at(index) < end).map(({ healthy, failed, begun }, index) => ({
    title: new Date(at(index)).toLocaleDateString("sv-SE"),
    ok: healthy,
    bad: failed,
    rest: Math.max(0, begun - healthy - failed),
  }));
  const part = selected < 0 ? window : { ...window, since: new Date(at(selected)).toISOString(), until: new Date(Math.min(end, at(selected + 1))).toISOString() };
  return (
    <div className="stack">
      <Figures {...data} />
      <section className="card stack">
        <h2>Deployments over time</h2>
        <BarChart rows={rows} selected={selected} onSelect={(index) => choose(index < 0 ? "" : String(index))} />
      </section>
      <h2>{rows[selected] === undefined ? "Deployments" : `Deployments from ${rows[selected].title}`}</h2>
      <Deployments window={part} view="list" />
    </div>
  );
}

function Groups() {
  const [{ data }] = useQuery({ query: DeliveryGroupsDocument });
  const [project, setProject] = useParam("project");
  const [cluster, setCluster] = useParam("cluster");
  const projects = data?.projects.edges.map(({ node: { id, name } }) => [id, name] as const) ?? [];
  const clusters = data?.clusters.edges.map(({ node: { id, handle } }) => [id, handle] as const) ?? [];
  const choices = [
    ["Project", "All projects", project, setProject, projects],
    ["Cluster", "All clusters", cluster, setCluster, clusters],
  ] as const;
  return choices.map(([label, all, value, change, names]) => (
    <select key={label} aria-label={label} value={value} onChange={(event) => change(event.target.value)}>
      <option value="">{all}</option>
      {names.map(([id, name]) => (
        <option key={id} value={id}>
          {name}
        </option>
      ))}
    </select>
  ));
}

/** DORA metrics over a time range, with the deployments behind them. */
export function ReportsPage() {
  const [chosen] = useParam("span");
  const [project] = useParam("project");
  const [cluster] = useParam("cluster");
  const [labels] = useParam("labels");
  const [, , days, by] = SPANS.find(([key]) => key === chosen) ?? ["", "", 30, "DAY" as const];
  // Rounded up to five minutes, so that the query does not change every second.
  const until = Math.ceil(useNow() / REFRESH) * REFRESH;
  // Periods begin at midnight, so that a bar is a calendar day.
  const since = new Date(until).setHours(0, 0, 0, 0) - (days - 1) * DAY;
  const text = (moment: number) => new Date(moment).toISOString();
  const window: ReportWindow = { since: text(since), until: text(until), projectId: project || null, clusterId: cluster || null, labels: labels.trim() || null };
  const [{ data, error }] = useQuery({ query: DeliveryDocument, variables: { ...window, before: text(2 * since - until), by } });
  const overview = () => (data == null ? error === undefined && <Skeleton lines={8} /> : <Overview data={data} window={window} by={by} />);
  return (
    <>
      <div className="bar">
        <h1>Delivery</h1>
        <Chips label="Time range" name="span" options={SPANS.map(([key, title]) => [key, title])} />
        <Groups />
        <FilterField label="Labels, such as team=shop" name="labels" />
      </div>
      {error !== undefined && data == null && <Problem error={error} />}
      <Tabs
        tabs={[
          { id: "overview", title: "Overview", content: overview },
          { id: "timeline", title: "Time line", content: () => <Deployments window={window} view="timeline" /> },
          { id: "breakdown", title: "By project, cluster and label", content: () => <Breakdown window={window} /> },
        ]}
      />
    </>
  );
}
