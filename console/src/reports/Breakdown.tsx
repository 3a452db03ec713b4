import { useQuery } from "urql";
import { DeliveryByLabelDocument, DeliveryGroupsDocument, DeliveryOfDocument, type DeliveryByLabelQuery } from "../api/generated";
import { FilterField } from "../ui/FilterField";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Table } from "../ui/Table";
import { useParam } from "../ui/useParam";
import { percent, rate, seconds } from "./format";
import type { ReportWindow } from "./window";

const TITLES = ["Deployments", "Rate", "Lead time", "Failure rate", "Time to restore"];

type Figures = Pick<DeliveryByLabelQuery["deliveryReport"]["byLabel"][number], "total" | "deploymentsPerDay" | "leadP50" | "restoreP50">;
type RowProps = { readonly name: string; readonly of: Figures | undefined; readonly onOpen: () => void };

function Row({ name, of, onOpen }: RowProps) {
  const cells = of === undefined ? ["…", "", "", "", ""] : [of.total.begun.toLocaleString("en"), rate(of.deploymentsPerDay), seconds(of.leadP50), percent(of.total.failureRate), seconds(of.restoreP50)];
  return (
    <tr>
      <td>
        <button type="button" className="link" onClick={onOpen}>
          {name}
        </button>
      </td>
      {cells.map((cell, index) => (
        <td key={index} className="number">
          {cell}
        </td>
      ))}
    </tr>
  );
}

/** Row of a project or of a cluster; the other filters of the page apply too. */
function GroupRow({ name, window, onOpen }: { readonly name: string; readonly window: ReportWindow; readonly onOpen: () => void }) {
  const [{ data }] = useQuery({ query: DeliveryOfDocument, variables: window });
  return <Row name={name} of={data?.deliveryReport} onOpen={onOpen} />;
}

/** Label of the breakdown, if the address names none. */
const USUAL_LABEL = "team";

/** Selector of the services with a value of a label; null: of those without it. */
export const labelSelector = (label: string, value: string | null): string => (value === null ? `!${label}` : `${label}=${value}`);

function ByLabel({ window }: { readonly window: ReportWindow }) {
  const [chosen] = useParam("label");
  const [, filter] = useParam("labels");
  const label = chosen.trim() || USUAL_LABEL;
  const [{ data, error }] = useQuery({ query: DeliveryByLabelDocument, variables: { ...window, label } });
  const groups = data?.deliveryReport.byLabel;
  const hasNone = groups?.every(({ value }) => value === null) ?? false;
  return (
    <section className="stack" aria-label="By label">
      <div className="bar">
        <h2>By label</h2>
        <FilterField label={`Label, such as ${USUAL_LABEL}`} name="label" />
      </div>
      {error !== undefined && <Problem error={error} />}
      {groups === undefined ? (
        error === undefined && <Skeleton lines={4} />
      ) : hasNone ? (
        <p className="quiet">No service with deployments has the label “{label}”. Services have the labels of their manifests and the tags of their clusters.</p>
      ) : (
        <Table label={`By ${label}`} titles={[label, ...TITLES]} numbers={TITLES}>
          {groups.map((group) => (
            <Row key={group.value} name={group.value ?? `without ${label}`} of={group} onOpen={() => filter([window.labels ?? "", labelSelector(label, group.value)].filter(Boolean).join(","))} />
          ))}
        </Table>
      )}
    </section>
  );
}

/** Metrics by project, cluster and label; a name filters the page. */
export function Breakdown({ window }: { readonly window: ReportWindow }) {
  const [{ data, error }] = useQuery({ query: DeliveryGroupsDocument });
  const [, setProject] = useParam("project");
  const [, setCluster] = useParam("cluster");
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={4} />;
  return (
    <div className="stack">
      <ByLabel window={window} />
      <Table label="By project" titles={["Project", ...TITLES]} numbers={TITLES}>
        {data.projects.edges.map(({ node: { id, name } }) => (
          <GroupRow key={id} name={name} window={{ ...window, projectId: id }} onOpen={() => setProject(id)} />
        ))}
      </Table>
      <Table label="By cluster" titles={["Cluster", ...TITLES]} numbers={TITLES}>
        {data.clusters.edges.map(({ node: { id, handle } }) => (
          <GroupRow key={id} name={handle} window={{ ...window, clusterId: id }} onOpen={() => setCluster(id)} />
        ))}
      </Table>
    </div>
  );
}
