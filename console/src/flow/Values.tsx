import { useEffect, useState, type ReactNode } from "react";
import { useQuery } from "urql";
import { Link } from "wouter";
import { ServiceSecretsDocument, ServiceValuesDocument, type ServiceValuesQuery } from "../api/generated";
import { UseCells } from "../secrets/UseCells";
import { FlowGraph } from "../ui/FlowGraph";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";
import { EditFlow } from "./EditFlow";
import { around, pictured, type FlowPicture } from "./neighbours";

type Flow = ServiceValuesQuery["serviceFlow"];

/** A value as the API tells it, as JSON text or as itself. */
function shown(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function usePicture(serviceId: string, affected: readonly string[]): FlowPicture | null {
  const [picture, show] = useState<FlowPicture | null>(null);
  const key = affected.join();
  useEffect(() => {
    let gone = false;
    void around(serviceId, key === "" ? [] : key.split(",")).then(({ found, cut }) => {
      if (!gone) show(pictured(serviceId, found, cut));
    });
    return () => {
      gone = true;
    };
  }, [serviceId, key]);
  return picture;
}

function Picture({ serviceId, affected }: { readonly serviceId: string; readonly affected: ServiceValuesQuery["affectedServices"] }) {
  const picture = usePicture(
    serviceId,
    affected.map((one) => one.serviceId),
  );
  if (picture === null) return <Skeleton lines={4} />;
  if (picture.ways.length === 0) return null;
  return (
    <section className="stack" aria-label="Flow of values">
      <FlowGraph label="Flow of values" spots={picture.spots} ways={picture.ways} />
      {picture.cut && <p className="quiet">More services take part than are drawn.</p>}
      {affected.length > 0 && (
        <p className="reaches">
          A change of what it exports reaches{" "}
          {affected.map((one, index) => (
            <span key={one.serviceId}>
              {index > 0 && ", then "}
              <Link href={`/services/${one.serviceId}?tab=values`}>{one.name}</Link>
            </span>
          ))}
          .
        </p>
      )}
    </section>
  );
}

function Imports({ flow }: { readonly flow: Flow }) {
  if (flow.imports.length === 0) return <p className="quiet">It imports nothing from other services.</p>;
  return (
    <Table label="Imports" titles={["Here", "Value now", "Comes from"]}>
      {flow.imports.map((one) => (
        <tr key={one.alias}>
          <td>
            <code>imports.{one.alias}</code>
          </td>
          <td className="wide">{one.value === null ? <Status tone="bad">cannot be had</Status> : <code>{shown(one.value)}</code>}</td>
          <td className="wide">
            <Link href={`/services/${one.sourceId}?tab=values`}>{one.export}</Link> <span className="quiet">{one.origin.join(" ← ")}</span>
          </td>
        </tr>
      ))}
    </Table>
  );
}

function Contexts({ values }: { readonly values: ServiceValuesQuery["serviceContextValues"] }) {
  if (values.length === 0) return <p className="quiet">It is bound to no context.</p>;
  return (
    <Table label="Values of contexts" titles={["Context", "Name", "Value", "Comes from"]}>
      {values.map(({ context, key, value, origin }) => (
        <tr key={`${context} ${key}`}>
          <td>
            <Link href={`/contexts?edit=${encodeURIComponent(context)}`}>{context}</Link>
          </td>
          <td>
            <code>{key}</code>
          </td>
          <td className="wide">{value === null ? <Status tone="idle">secret</Status> : <code>{shown(value)}</code>}</td>
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
  if (data.serviceSecrets.length === 0) return <p className="quiet">It uses no secret.</p>;
  return (
    <Table label="Secrets" titles={["As", "Secret", "Version", "In the cluster", "Changed"]}>
      {data.serviceSecrets.map((one) => (
        <tr key={one.id}>
          <td>
            <code>{one.name}</code>
          </td>
          <td>
            <Link href={`/secrets/${one.secretId}`}>{one.secretName}</Link>
          </td>
          <UseCells use={one} />
        </tr>
      ))}
    </Table>
  );
}

function Exports({ flow }: { readonly flow: Flow }) {
  if (flow.exports.length === 0) return <p className="quiet">It exports nothing.</p>;
  return (
    <Table label="Exports" titles={["Exports", "Type", "Value", "To"]}>
      {flow.exports.map(({ name, type, value, shared }) => (
        <tr key={name}>
          <td>
            <code>{name}</code>
          </td>
          <td>{type.toLowerCase()}</td>
          <td className="wide">
            <code>{shown(value)}</code>
          </td>
          <td>{shared ? "other projects as well" : "its own project"}</td>
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

/** Every value that a service finds, where it comes from, and whom its own ones reach. */
export function Values({ serviceId }: { readonly serviceId: string }) {
  const [{ data, error }, again] = useQuery({ query: ServiceValuesDocument, variables: { id: serviceId } });
  const [editing, edit] = useState(false);
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={8} />;
  const { serviceFlow: flow, affectedServices, serviceContextValues } = data;
  const done = () => {
    edit(false);
    again({ requestPolicy: "network-only" });
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
              Change what it exports and imports
            </button>
          </div>
        </>
      )}
      <Part title="Of contexts">
        <Contexts values={serviceContextValues} />
      </Part>
      <Part title="Secrets">
        <Secrets serviceId={serviceId} />
      </Part>
    </div>
  );
}
