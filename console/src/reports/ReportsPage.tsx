import { useQuery } from "urql";
import { DeliveryDocument, type DeliveryQuery, type ReportPeriod } from "../api/generated";
import { useNow } from "../live/clock";
import { duration } from "../text/time";
import { Chips } from "../ui/Chips";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { useParam } from "../ui/useParam";
import { Bars } from "./Bars";
import "./reports.css";

const DAY = 86_400_000;
const REFRESH = 300_000;
const SPANS: readonly (readonly [string, string, number, ReportPeriod])[] = [
  ["7", "7 days", 7, "DAY"],
  ["", "30 days", 30, "DAY"],
  ["90", "90 days", 90, "WEEK"],
  ["365", "1 year", 365, "MONTH"],
];

const seconds = (value: number | null): string => (value === null ? "–" : value < 1 ? "under 1s" : duration(value * 1000));
/** Formats a rate per day, or per week below 0.5 a day. */
const rate = (perDay: number): string => (perDay === 0 || perDay >= 0.5 ? `${Math.round(perDay * 10) / 10} per day` : `${Math.round(perDay * 70) / 10} per week`);
const percent = (value: number | null): string => (value === null ? "–" : `${Math.round(value * 1000) / 10}%`);

function Figure({ title, value, note }: { readonly title: string; readonly value: string; readonly note: string }) {
  return (
    <div className="card figure">
      <h2>{title}</h2>
      <strong>{value}</strong>
      <span className="quiet">{note}</span>
    </div>
  );
}

function Report({ report, by }: { readonly report: DeliveryQuery["deliveryReport"]; readonly by: ReportPeriod }) {
  const { total, parts } = report;
  const length = { DAY: DAY, WEEK: 7 * DAY, MONTH: 30 * DAY }[by];
  const titles = parts.map((_, index) => new Date(new Date(report.since).getTime() + index * length).toLocaleDateString("sv-SE"));
  return (
    <>
      <div className="dora">
        <Figure title="Deployments" value={rate(report.deploymentsPerDay)} note={`${total.healthy.toLocaleString()} of ${total.begun.toLocaleString()} became healthy`} />
        <Figure title="Lead time" value={seconds(report.leadP50)} note={`p90 ${seconds(report.leadP90)}, from commit to healthy`} />
        <Figure title="Change failure rate" value={percent(total.failureRate)} note={`${total.failed.toLocaleString()} failed, degraded or were reverted`} />
        <Figure title="Time to restore" value={seconds(report.restoreP50)} note={`p90 ${seconds(report.restoreP90)}`} />
      </div>
      <section className="card stack">
        <h2>Deployments over time</h2>
        <Bars titles={titles} rows={parts.map(({ healthy, failed, begun }) => ({ ok: healthy, bad: failed, rest: Math.max(0, begun - healthy - failed) }))} />
      </section>
    </>
  );
}

/** DORA metrics over a time range. */
export function ReportsPage() {
  const [chosen] = useParam("span");
  const [, , days, by] = SPANS.find(([key]) => key === chosen) ?? ["", "", 30, "DAY" as const];
  // Rounded up to five minutes, so that the query does not change every second and no partial period begins.
  const next = Math.ceil(useNow() / REFRESH) * REFRESH;
  const since = new Date(next - days * DAY).toISOString();
  const [{ data, error }] = useQuery({ query: DeliveryDocument, variables: { since, by } });
  return (
    <>
      <div className="bar">
        <h1>Delivery</h1>
        <Chips label="Time range" name="span" options={SPANS.map(([key, title]) => [key, title])} />
      </div>
      {error !== undefined && data == null && <Problem error={error} />}
      {data == null ? error === undefined && <Skeleton lines={8} /> : <Report report={data.deliveryReport} by={by} />}
    </>
  );
}
