import { useQuery } from "urql";
import { DryRunPlanDocument, ServiceSecretsDocument, type DryRunPlanQuery } from "../api/generated";
import { Actions } from "../manage/Actions";
import { SecretUseRow } from "../secrets/UseCells";
import type { Service } from "../services/service";
import { counted } from "../text/counts";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";
import { GIVE_SECRET, SERVICE_ACTIONS, takeSecret, type Subject } from "./actions";

type Plan = NonNullable<DryRunPlanQuery["dryRunPlan"]>;

const PLANNED = { CREATE: STATES.added, UPDATE: STATES.changed, REPLACE: STATES.changed, DELETE: STATES.removed };

function Planned({ plan }: { readonly plan: Plan }) {
  if (plan.changes.length === 0) return <p className="quiet">A sync would change nothing.</p>;
  return (
    <Table label="Dry-run plan" titles={["Object", "Change", "Fields"]}>
      {plan.changes.map(({ action, object, fields }) => (
        <tr key={`${object.group} ${object.kind} ${object.namespace} ${object.name}`}>
          <td>
            <span className="kind">{object.kind}</span> {object.namespace !== null && `${object.namespace}/`}
            {object.name}
          </td>
          <td>
            <Status state={PLANNED[action]} detail={action === "REPLACE" ? "deleted and created" : ""} />
          </td>
          <td className="wide">
            {fields.slice(0, 10).map(({ pointer, old, new: next }) => (
              <div key={pointer}>
                <code>{pointer}</code> {old !== null && <del>{old}</del>} {next !== null && <ins>{next}</ins>}
              </div>
            ))}
            {fields.length > 10 && <span className="quiet">and {counted(fields.length - 10, "more field")}</span>}
          </td>
        </tr>
      ))}
    </Table>
  );
}

function DryRun({ service }: { readonly service: Service }) {
  const [{ data, error }] = useQuery({ query: DryRunPlanDocument, variables: { serviceId: service.id }, requestPolicy: "network-only", pause: !service.dryRun });
  if (!service.dryRun) return <p className="quiet">Dry run is off: syncs change the cluster. Turn it on under Settings to see a plan first.</p>;
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={3} />;
  return data.dryRunPlan === null ? <p className="quiet">The agent has not reported a plan yet.</p> : <Planned plan={data.dryRunPlan} />;
}

function Secrets({ subject }: { readonly subject: Subject }) {
  const [{ data, error }] = useQuery({ query: ServiceSecretsDocument, variables: { serviceId: subject.id } });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={2} />;
  const uses = data.serviceSecrets;
  return (
    <>
      {uses.length === 0 ? (
        <p className="quiet">The service uses no secrets.</p>
      ) : (
        <Table label="Secrets of the service" titles={["Name", "Secret", "Version", "In the cluster", "Changed", ""]}>
          {uses.map((use) => (
            <SecretUseRow key={use.id} use={use}>
              <td>
                <Actions actions={[takeSecret(use)]} node={{ subject, uses }} />
              </td>
            </SecretUseRow>
          ))}
        </Table>
      )}
      <div className="bar">
        <Actions actions={[GIVE_SECRET]} node={{ subject, uses }} />
      </div>
    </>
  );
}

/** Dry-run plan and secrets of a service, and operations without a change of its definition. */
export function Maintenance({ service }: { readonly service: Service }) {
  const subject: Subject = { id: service.id, name: service.name, namespace: service.namespace, handle: service.cluster?.handle ?? "", waiting: service.waiting };
  return (
    <div className="stack">
      <section className="card stack">
        <h2>Operations</h2>
        <div className="bar">
          <Actions actions={SERVICE_ACTIONS} node={subject} />
        </div>
      </section>
      <section className="card stack">
        <h2>Dry-run plan</h2>
        <DryRun service={service} />
      </section>
      <section className="card stack">
        <h2>Secrets</h2>
        <Secrets subject={subject} />
      </section>
    </div>
  );
}
