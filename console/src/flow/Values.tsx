import { useEffect, useState, type ReactNode } from "react";
import { useQuery } from "urql";
import { Link } from "wouter";
import { ServiceSecretsDocument, ServiceValuesDocument, type ServiceValuesQuery } from "../api/generated";
import { SecretUseRow } from "../secrets/UseCells";
import { FlowGraph } from "../ui/FlowGraph";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";
import { EditFlow } from "./EditFlow";
import { around, flowGraph, type FlowPicture } from "./neighbours";

type Flow = ServiceValuesQuery["serviceFlow"];

/** Text of a value, which the API sends as JSON text or as the value itself. */
function shown(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function usePicture(serviceId: string, affected: readonly string[]): FlowPicture | null {
  const [picture, show] = useState<FlowPicture | null>(null);
  const key = affected.join();
  useEffect(() => {
    let cancelled = false;
    void around(serviceId, key === "" ? [] : key.split(",")).then(({ found, cut }) => {
      if (!cancelled) show(flowGraph(serviceId, found, cut));
    });
    return () => {
      cancelled = true;
    };
  }, [serviceId, key]);
  return picture;
}

function Picture({ serviceId, affected }: { readonly serviceId: string; readonly affected: ServiceValuesQuery["affectedServices"] }) {
  const picture = usePicture(
    serviceId,
    affected.map((service) => service.serviceId),
  );
  if (picture === null) return <Skeleton lines={4} />;
  if (picture.edges.length === 0) return null;
  return (
    <section className="stack" aria-label="Value flow">
      <FlowGraph label="Value flow" nodes={picture.nodes} edges={picture.edges} />
      {picture.cut && <p className="quiet">The graph shows only the first 60 services.</p>}
      {affected.length > 0 && (
        <p className="affected">
          A change of the exports affects{" "}
          {affected.map(({ serviceId: id, name }, index) => (
            <span key={id}>
              {index > 0 && ", then "}
              <Link href={`/services/${id}?tab=values`}>{name}</Link>
            </span>
          ))}
          .
        </p>
      )}
    </section>
  );
}

function Imports({ flow }: { readonly flow: Flow }) {
  if (flow.imports.length === 0) return <p className="quiet">No imports from other services.</p>;
  return (
    <Table label="Imports" titles={["Name", "Value", "Source"]}>
      {flow.imports.map(({ alias, value, sourceId, export: name, origin }) => (
        <tr key={alias}>
          <td>
            <code>imports.{alias}</code>
          </td>
          <td className="wide">{value === null ? <Status state={STATES.unavailable} /> : <code>{shown(value)}</code>}</td>
          <td className="wide">
            <Link href={`/services/${sourceId}?tab=values`}>{name}</Link> <span className="quiet">{origin.join(" ← ")}</span>
          </td>
        </tr>
      ))}
    </Table>
  );
}

function Contexts({ values }: { readonly values: ServiceValuesQuery["serviceContextValues"] }) {
  if (values.length === 0) return <p className="quiet">No bound contexts.</p>;
  return (
    <Table label="Context values" titles={["Context", "Name", "Value", "Source"]}>
      {values.map(({ context, key, value, origin }) => (
        <tr key={`${context} ${key}`}>
          <td>
            <Link href={`/contexts?edit=${encodeURIComponent(context)}`}>{context}</Link>
          </td>
          <td>
            <code>{key}</code>
          </td>
          <td className="wide">{value === null ? <Status state={STATES.secret} /> : <code>{shown(value)}</code>}</td>
          <td>{origin}</td>
        </tr>
      ))}
    </Table>
  );
}

function Secrets({ serviceId }: { readonly serviceId: string }) {
  const [{ data, error }] = useQuery({ query: ServiceSecretsDocument, variables: { serviceId } });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={2} />;
  if (data.serviceSecrets.length === 0) return <p className="quiet">No secrets in use.</p>;
  return (
    <Table label="Secrets" titles={["Name", "Secret", "Version", "In the cluster", "Changed"]}>
      {data.serviceSecrets.map((use) => (
        <SecretUseRow key={use.id} use={use} />
      ))}
    </Table>
  );
}

function Exports({ flow }: { readonly flow: Flow }) {
  if (flow.exports.length === 0) return <p className="quiet">No exports.</p>;
  return (
    <Table label="Exports" titles={["Name", "Type", "Value", "Visibility"]}>
      {flow.exports.map(({ name, type, value, shared }) => (
        <tr key={name}>
          <td>
            <code>{name}</code>
          </td>
          <td>{type.toLowerCase()}</td>
          <td className="wide">
            <code>{shown(value)}</code>
          </td>
          <td>{shared ? "all projects" : "own project"}</td>
        </tr>
      ))}
    </Table>
  );
}

function Part({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <section className="part">
      <h2>{title}</h2>
      {children}
    </section>
  );
}

/** Values of a service: imports, exports, context values and secrets, with their sources. */
export function Values({ serviceId }: { readonly serviceId: string }) {
  const [{ data, error }, refetch] = useQuery({ query: ServiceValuesDocument, variables: { id: serviceId } });
  const [editing, edit] = useState(false);
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={8} />;
  const { serviceFlow: flow, affectedServices, serviceContextValues } = data;
  const done = () => {
    edit(false);
    refetch({ requestPolicy: "network-only" });
  };
  return (
    <div className="stack">
      {flow.problem !== null && (
        <ul className="problems">
          <li>{flow.problem}</li>
        </ul>
      )}
      <Picture serviceId={serviceId} affected={affectedServices} />
      {editing ? (
        <EditFlow serviceId={serviceId} flow={flow} onDone={done} />
      ) : (
        <>
          <Part title="Imports">
            <Imports flow={flow} />
          </Part>
          <Part title="Exports">
            <Exports flow={flow} />
          </Part>
          <div>
            <button type="button" onClick={() => edit(true)}>
              Edit exports and imports
            </button>
          </div>
        </>
      )}
      <Part title="Context values">
        <Contexts values={serviceContextValues} />
      </Part>
      <Part title="Secrets">
        <Secrets serviceId={serviceId} />
      </Part>
    </div>
  );
}
