import { useQuery } from "urql";
import { Link } from "wouter";
import { PipelineReleasesDocument } from "../api/generated";
import { Actions } from "../manage/Actions";
import { Age } from "../ui/Age";
import { Person } from "../ui/Person";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { stageState, STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";
import { ABORT, ACKNOWLEDGE, CHECK, START } from "./releaseActions";

const TRIGGER_STATES = { IDLE: STATES.ready, WAITING: STATES.waiting, WRITING: STATES.running, DONE: STATES.completed, FAILED: STATES.failed };

/** Releases in the stages, and triggers, of a pipeline: start, abort, and lift a hold. */
export function Releases({ id }: { readonly id: string }) {
  const [{ data, error }] = useQuery({ query: PipelineReleasesDocument, variables: { id } });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={6} />;
  const { pipeline } = data;
  if (pipeline === null) return <p className="quiet">No releases.</p>;
  return (
    <div className="stack">
      <div className="bar">
        <Actions actions={[START]} node={pipeline} primary />
        <Link className="button" href="/pipelines/revisions">
          Denied revisions
        </Link>
      </div>
      <Table label="Releases by stage" titles={["Stage", "State", "Release", "Author", "Clusters", "Hold", ""]}>
        {pipeline.stages.map((stage) => (
          <tr key={stage.id}>
            <td>{stage.name}</td>
            <td>
              <Status state={stageState(stage.health)} detail={stage.reason} />
            </td>
            <td>{stage.release === null ? "none" : `#${stage.release.number}`}</td>
            <td>{stage.release !== null && <Person author={stage.release.author} />}</td>
            <td>
              {stage.rollout.given > 0 && `${stage.rollout.healthy} healthy${stage.rollout.failed > 0 ? `, ${stage.rollout.failed} failed` : ""} of ${stage.rollout.given}`}
            </td>
            <td className="wide">{stage.hold}</td>
            <td>
              <Actions actions={[ABORT, ACKNOWLEDGE]} node={{ pipeline, stage }} />
            </td>
          </tr>
        ))}
      </Table>
      {pipeline.triggers.length > 0 && (
        <Table label="Triggers" titles={["Trigger", "Type", "State", "Value", "Checked", ""]}>
          {pipeline.triggers.map((trigger) => (
            <tr key={trigger.id}>
              <td>{trigger.name}</td>
              <td>{trigger.type.toLowerCase()}</td>
              <td className="wide">
                <Status state={TRIGGER_STATES[trigger.state]} detail={trigger.error ?? trigger.reason} />
              </td>
              <td>{trigger.value}</td>
              <td>
                <Age at={trigger.checkedAt} />
              </td>
              <td>
                <Actions actions={[CHECK]} node={{ pipeline, trigger }} />
              </td>
            </tr>
          ))}
        </Table>
      )}
    </div>
  );
}
