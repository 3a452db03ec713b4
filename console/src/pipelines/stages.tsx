import { Link } from "wouter";
import type { PipelineBoardFragment } from "../api/generated";
import { serviceStatus } from "../services/status";
import { Age } from "../ui/Age";
import { Person } from "../ui/Person";
import { Status, type Tone } from "../ui/Status";

export type Stage = PipelineBoardFragment["stages"][number];
export type Edge = PipelineBoardFragment["edges"][number];
export type Gate = Edge["gates"][number];

const HEALTH: Record<string, readonly [Tone, string]> = {
  HEALTHY: ["ok", "Healthy"],
  PROGRESSING: ["busy", "On its way"],
  FAILED: ["bad", "Failed"],
};

/** Tone and word of a stage's health. */
export const stageHealth = (health: string): readonly [Tone, string] => HEALTH[health] ?? ["idle", "Empty"];

/** A stage: the release that is in it, how it fares, and its services. */
export function StageCard({ stage }: { readonly stage: Stage }) {
  const [tone, word] = stageHealth(stage.health);
  return (
    <section className="stage" aria-label={`Stage ${stage.name}`}>
      <header>
        <h3>{stage.name}</h3>
        <Status tone={tone}>{word}</Status>
      </header>
      {stage.release === null ? (
        <p className="quiet">no release yet</p>
      ) : (
        <p className="release">
          <strong>#{stage.release.number}</strong> <Person author={stage.release.author} /> <Age at={stage.release.seenAt} />
        </p>
      )}
      {stage.reason !== "" && <p className="why">{stage.reason}</p>}
      <ul>
        {stage.services.map(({ service }) => {
          const { tone: own, word: state } = serviceStatus(service.status);
          return (
            <li key={service.id}>
              <Link href={`/services/${service.id}`}>
                {service.cluster?.handle}/{service.name}
              </Link>
              <Status tone={own}>{state}</Status>
            </li>
          );
        })}
      </ul>
    </section>
  );
}
