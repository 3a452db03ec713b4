import { Link } from "wouter";
import { exactly } from "../text/time";
import { lanesOf, resultOf, type Deployment } from "./deployments";

const WIDTH = 1000;
const LEFT = 150;
const LANE = 26;
const MAX_LANES = 15;
const MARKS = 5;

/** Scrolls to the newest deployments, where the chart is wider than the window. */
const showEnd = (chart: HTMLElement | null): void => chart?.scrollTo({ left: chart.scrollWidth });

type Props = { readonly deployments: readonly Deployment[]; readonly since: string; readonly until: string };

/** Deployments of the fleet on a time line, one lane per cluster. A mark leads to the service. */
export function FleetTimeline({ deployments, since, until }: Props) {
  const lanes = lanesOf(deployments);
  const begin = new Date(since).getTime();
  const span = Math.max(1, new Date(until).getTime() - begin);
  const x = (at: string) => LEFT + ((new Date(at).getTime() - begin) / span) * (WIDTH - LEFT - 10);
  const shown = lanes.slice(0, MAX_LANES);
  const height = shown.length * LANE + 24;
  if (shown.length === 0) return <p className="quiet">No deployments in this period.</p>;
  return (
    <figure className="chart" ref={showEnd}>
      <svg viewBox={`0 0 ${WIDTH} ${height}`} role="group" aria-label="Deployments by cluster over time">
        {Array.from({ length: MARKS + 1 }, (_, index) => {
          const at = new Date(begin + (span * index) / MARKS);
          return (
            <g key={index} className="tick" aria-hidden="true">
              <line x1={x(at.toISOString())} x2={x(at.toISOString())} y1={0} y2={height - 20} />
              <text x={x(at.toISOString())} y={height - 6} textAnchor={index === MARKS ? "end" : "middle"}>
                {span > 2 * 86_400_000 ? at.toLocaleDateString("sv-SE") : at.toLocaleTimeString("sv-SE", { hour: "2-digit", minute: "2-digit" })}
              </text>
            </g>
          );
        })}
        {shown.map(([cluster, own], lane) => (
          <g key={cluster}>
            <text className="lane" x={0} y={lane * LANE + 17}>
              {cluster.length > 22 ? `${cluster.slice(0, 21)}…` : cluster}
            </text>
            {own.map((deployment) => {
              const { label, tone, shape } = resultOf(deployment);
              const name = `${deployment.service ?? "deleted service"} in ${cluster}: ${label}, ${exactly(deployment.desiredAt)}, ${deployment.actor}`;
              return (
                <Link key={`${deployment.serviceId} ${deployment.sequence}`} href={`/services/${deployment.serviceId}?tab=history`} aria-label={name}>
                  <title>{name}</title>
                  <text className={`mark ${tone}`} x={x(deployment.desiredAt)} y={lane * LANE + 18} textAnchor="middle">
                    {shape}
                  </text>
                </Link>
              );
            })}
          </g>
        ))}
      </svg>
      {lanes.length > MAX_LANES && <figcaption className="quiet">The {MAX_LANES} clusters with the most deployments of {lanes.length}.</figcaption>}
    </figure>
  );
}
