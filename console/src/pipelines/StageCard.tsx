import { Link } from "wouter";
import { serviceState, stageState } from "../ui/states";
import { Age } from "../ui/Age";
import { Person } from "../ui/Person";
import { Status } from "../ui/Status";
import { GateLine } from "./Gates";
import { workflowQuestion, type Stage } from "./stages";

type Props = { readonly stage: Stage; readonly pipelineId: string };

/** One stage: its release, health, services and workflow. */
export function StageCard({ stage, pipelineId }: Props) {
  return (
    <section className="stage" aria-label={`Stage ${stage.name}`}>
      <header>
        <h3>{stage.name}</h3>
        <Status state={stageState(stage.health)} />
      </header>
      {stage.release === null ? (
        <p className="quiet">No release yet</p>
      ) : (
        <p className="release">
          <strong>#{stage.release.number}</strong> <Person author={stage.release.author} /> <Age at={stage.release.seenAt} />
        </p>
      )}
      {stage.reason !== "" && <p className="why">{stage.reason}</p>}
      <ul className="members">
        {stage.services.map(({ service: { id, name, cluster, status } }) => (
          <li key={id}>
            <Link href={`/services/${id}`}>
              {cluster?.handle}/{name}
            </Link>
            <Status state={serviceState(status)} />
            {stage.silent.filter(({ service }) => service.id === id).map(({ leftOut, service }) => (
              <span key={id} className="quiet">
                {leftOut ? "Left out" : "Waited for"}: agent last seen <Age at={service.cluster?.pingedAt ?? null} />
              </span>
            ))}
          </li>
        ))}
      </ul>
      {stage.workflow !== null && (
        <ul className="own-workflow" aria-label={`Workflow of ${stage.name}`}>
          <GateLine gate={stage.workflow} question={workflowQuestion(stage)} pipelineId={pipelineId} />
        </ul>
      )}
    </section>
  );
}
