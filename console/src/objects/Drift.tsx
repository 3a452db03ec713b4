import { EyeOff, RefreshCw } from "lucide-react";
import { useState } from "react";
import { useMutation, useQuery, type CombinedError } from "urql";
import { ComponentBlameDocument, ComponentContentDocument, SyncServiceDocument, type ComponentContentQuery, type ComponentQuery } from "../api/generated";
import { useRefetch } from "../live/useRefetch";
import { changeSyncOptions } from "../services/syncOptions";
import { SyncObjects } from "../services/SyncObjects";
import { asYaml, toYaml } from "../text/yaml";
import { Age } from "../ui/Age";
import { Chips } from "../ui/Chips";
import { Diff } from "../ui/Code";
import { Confirm } from "../ui/Confirm";
import { CopyButton } from "../ui/CopyButton";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Table } from "../ui/Table";
import { toast } from "../ui/toast";
import { useParam } from "../ui/useParam";
import { Origin, OutsideChanges } from "./FieldOwners";
import { differencesOf, type FieldDifference } from "./fields";

type Component = NonNullable<ComponentQuery["component"]>["component"];
type Content = NonNullable<ComponentContentQuery["component"]>["component"]["content"];

const VIEWS: readonly (readonly [string, string])[] = [
  ["", "Fields"],
  ["split", "Side by side"],
  ["inline", "Inline"],
];

/** Rule of the sync options that ignores one field of one object. */
const ruleOf = ({ group, kind, namespace, name }: Component, pointer: string) => ({ group, kind, namespace, name, jsonPointers: [pointer] });

type IgnoreProps = { readonly component: Component; readonly serviceId: string; readonly pointer: string; readonly onDone: () => void };

/** Dialog that adds a field to the ignored ones of a service. */
function IgnoreField({ component, serviceId, pointer, onDone }: IgnoreProps) {
  const [error, setError] = useState<CombinedError>();
  const rule = ruleOf(component, pointer);
  const go = async () => {
    const problem = await changeSyncOptions(serviceId, (options) => ({ ...options, diffNormalizers: [...(options.diffNormalizers ?? []), rule] }));
    setError(problem);
    if (problem !== undefined) return;
    onDone();
    toast(`${pointer} is ignored from the next sync`);
  };
  const text = toYaml({ syncConfig: { diffNormalizers: [Object.fromEntries(Object.entries(rule).filter(([, value]) => value !== null))] } });
  return (
    <Confirm title={`Ignore ${pointer} of ${component.name}?`} action="Ignore field" onCancel={onDone} onConfirm={() => void go()}>
      {error !== undefined && <Problem error={error} />}
      <p>Towline leaves this field to other field managers, and does not report it as a difference. The rule becomes part of the sync options of the service.</p>
      <p className="quiet">If a manifest defines the service, add this to the manifest instead:</p>
      <pre className="block">{text}</pre>
      <div>
        <CopyButton text={text} title="Copy as YAML" />
      </div>
    </Confirm>
  );
}

function FieldTable({ differences, component, serviceId }: { readonly differences: readonly FieldDifference[]; readonly component: Component; readonly serviceId: string }) {
  const [ignored, ignore] = useState<string | null>(null);
  return (
    <>
    <Table label="Fields that differ from Git" titles={["Field", "Git", "Cluster", "Set by", "Field manager", "Time", ""]}>
      {differences.map(({ pointer, git, cluster, owner }) => (
        <tr key={pointer}>
          <td className="wide">
            <code>{pointer}</code>
          </td>
          <td className="wide">{git === null ? <span className="quiet">missing</span> : <del className="value">{git}</del>}</td>
          <td className="wide">{cluster === null ? <span className="quiet">missing</span> : <ins className="value">{cluster}</ins>}</td>
          <td className="wide">{owner === undefined ? <span className="quiet">unknown</span> : <Origin field={owner} />}</td>
          <td>{owner?.manager}</td>
          <td>
            <Age at={owner?.at ?? null} never="unknown" />
          </td>
          <td>
            {serviceId !== "" && (
              <button type="button" onClick={() => ignore(pointer)}>
                <EyeOff size={14} aria-hidden="true" /> Ignore field…
              </button>
            )}
          </td>
        </tr>
      ))}
    </Table>
    {ignored !== null && <IgnoreField component={component} serviceId={serviceId} pointer={ignored} onDone={() => ignore(null)} />}
    </>
  );
}

type DifferenceProps = { readonly content: Content; readonly component: Component; readonly serviceId: string };

function Difference({ content, component, serviceId }: DifferenceProps) {
  const [view] = useParam("view");
  const [{ data }] = useQuery({ query: ComponentBlameDocument, variables: { id: component.id }, requestPolicy: "cache-and-network" });
  if (content?.desired == null) return <p className="quiet">Another controller owns this object; it is not in Git.</p>;
  if (content.live === null) return <p className="quiet">Out of sync with Git: the object does not exist in the cluster.</p>;
  if (content.live === content.desired) return <p className="quiet">{component.synced ? "In sync with Git" : "Out of sync with Git only in hidden values, or no longer: the agent reports the state within seconds."}</p>;
  const differences = differencesOf(content.desired, content.live, data?.componentBlame ?? []);
  const isTable = view === "" && differences !== undefined;
  return (
    <>
      <div className="bar">
        <Chips label="View of the difference" name="view" options={VIEWS} />
        <span className="fill" />
        {!isTable && <span className="quiet">Git is {view === "split" ? "on the left, the cluster on the right" : "red, the cluster green"}. Values of Secrets are hidden.</span>}
        {serviceId !== "" && <SyncObjects serviceId={serviceId} objects={[component]} />}
        {serviceId !== "" && <SyncService serviceId={serviceId} />}
      </div>
      {isTable ? <FieldTable differences={differences} component={component} serviceId={serviceId} /> : <Diff before={asYaml(content.desired)} after={asYaml(content.live)} label="Diff from Git to live" split={view === "split"} />}
    </>
  );
}

/** Button that has the agent apply the service again. */
function SyncService({ serviceId }: { readonly serviceId: string }) {
  const [{ error, fetching }, sync] = useMutation(SyncServiceDocument);
  return (
    <>
      <button type="button" className="primary" disabled={fetching} onClick={() => void sync({ id: serviceId }).then((result) => result.error === undefined && toast("Sync of the service started"))}>
        <RefreshCw size={14} aria-hidden="true" /> Sync service
      </button>
      {error !== undefined && <Problem error={error} />}
    </>
  );
}

/** Difference between the manifest in Git and the live object, with the owners of foreign fields. */
export function Drift({ component: shown, serviceId }: { readonly component: Component; readonly serviceId: string }) {
  const { id, updatedAt } = shown;
  const [{ data, error }, refetch] = useQuery({ query: ComponentContentDocument, variables: { id }, requestPolicy: "network-only" });
  useRefetch(refetch, updatedAt, id);
  const component = data?.component?.component;
  return (
    <div className="stack">
      {error !== undefined && <Problem error={error} />}
      {component === undefined ? error === undefined && <Skeleton lines={6} /> : error === undefined && <Difference content={component.content} component={{ ...shown, synced: component.synced }} serviceId={serviceId} />}
      <h2>Changed outside Git</h2>
      <OutsideChanges id={id} />
    </div>
  );
}
