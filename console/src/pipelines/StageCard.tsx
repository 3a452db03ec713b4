import { Link } from "wouter";
import { serviceStatus } from "../services/status";
import { Age } from "../ui/Age";
import { Person } from "../ui/Person";
import { Status } from "../ui/Status";
import { GateLine } from "./Gates";
import { askedWithin, stageHealth, type Stage } from "./stages";

type Props = { readonly stage: Stage; readonly pipelineId: string };

/** A stage: the release that is in it, how it fares, its services, and the workflow that has the last word. */
export function StageCard({ stage, pipelineId }: Props) {
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
      <ul className="members">
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
      {stage.workflow !== null && (
        <ul className="own-workflow" aria-label={`Workflow of ${stage.name}`}>
          <GateLine gate={stage.workflow} asked={askedWithin(stage)} pipelineId={pipelineId} />
        </ul>
      )}
    </section>
  );
}
