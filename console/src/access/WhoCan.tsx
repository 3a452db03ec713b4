import { useState } from "react";
import { useQuery } from "urql";
import { PlacesDocument, WhoCanDocument, type NamedItemKind, type ResourceKind, type WhoCanQuery } from "../api/generated";
import { exactly } from "../text/time";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { Combobox } from "../ui/Combobox";
import { Table } from "../ui/Table";
import { useParam } from "../ui/useParam";
import { KINDS, VERBS } from "./permissions";
import "./permissions.css";

type Holder = WhoCanQuery["whoCan"][number];

// Roles cannot be scoped to groups of clusters.
const PLACED: Partial<Record<NamedItemKind, ResourceKind>> = { CLUSTER: "CLUSTER", SERVICE: "SERVICE", REPOSITORY: "REPOSITORY", PIPELINE: "PIPELINE" };

const whyOf = ({ reasons }: Holder): string => reasons.map(({ why, expiresAt }) => (expiresAt === null ? why : `${why}, expires ${exactly(expiresAt)}`)).join("; ");
const byOf = ({ reasons }: Holder): string => reasons.map(({ role, place }) => `${role} in ${place}`).join(", ");

/** Search field for one resource; choosing a suggestion selects it. */
function ResourceField({ onChoose }: { readonly onChoose: (kind: ResourceKind, id: string) => void }) {
  const [text, setText] = useState("");
  const q = text.trim();
  const [{ data }] = useQuery({ query: PlacesDocument, variables: { q }, pause: q === "" });
  const places = (data?.places ?? []).flatMap((place) => {
    const kind = PLACED[place.kind];
    return kind === undefined ? [] : [{ kind, id: place.id, title: `${place.kind.toLowerCase()} ${place.within === null ? "" : `${place.within}/`}${place.name}` }];
  });
  const change = (next: string) => {
    setText(next);
    const found = places.find(({ title }) => title === next);
    if (found !== undefined) onChoose(found.kind, found.id);
  };
  return (
    <Combobox label="Resource name" placeholder="name of a resource; empty: all" value={text} offered={places.map(({ title }) => title)} onChange={change} />
  );
}

function Choice({ label, name, value, options }: { readonly label: string; readonly name: string; readonly value: string; readonly options: readonly string[] }) {
  const [, change] = useParam(name);
  return (
    <select aria-label={label} value={value} onChange={(event) => change(event.target.value)}>
      {options.map((option) => (
        <option key={option} value={option}>
          {option.toLowerCase()}
        </option>
      ))}
    </select>
  );
}

/** Whether one user has a permission, and the role that grants it. */
function Explained({ who, holders, what }: { readonly who: string; readonly holders: readonly Holder[]; readonly what: string }) {
  const wanted = who.toLowerCase();
  const holder = holders.find(({ user }) => user.email.toLowerCase() === wanted || user.name.toLowerCase() === wanted);
  return (
    <section className={`card explained ${holder === undefined ? "no" : "yes"}`} aria-label="Access check">
      {holder === undefined ? (
        <>
          <Status state={STATES.denied} /> {who} cannot {what}: no role of this user or of their groups grants it. The table below lists the users who can.
        </>
      ) : (
        <>
          <Status state={STATES.allowed} /> {holder.user.email} can {what}: {byOf(holder)}, {whyOf(holder)}.
        </>
      )}
    </section>
  );
}

/** Users who have a permission, and an access check for one user. */
export function WhoCan() {
  const [verb] = useParam("verb");
  const [kind, setKind] = useParam("kind");
  const [id, setId] = useParam("of");
  const [who, setWho] = useParam("person");
  const asked = { verb: VERBS.find((known) => known === verb) ?? "WRITE", kind: KINDS.find((known) => known === kind) ?? "SERVICE", id: id || null };
  const [{ data, error, fetching }] = useQuery({ query: WhoCanDocument, variables: asked });
  const what = `${asked.verb.toLowerCase()} ${asked.id === null ? `any ${asked.kind.toLowerCase()}` : `this ${asked.kind.toLowerCase()}`}`;
  const choose = (of: ResourceKind, chosen: string) => {
    if (of !== asked.kind) setKind(of);
    setId(chosen);
  };
  return (
    <>
      <div className="bar">
        Who can
        <Choice label="Verb" name="verb" value={asked.verb} options={VERBS} />
        <Choice label="Resource kind" name="kind" value={asked.kind} options={KINDS} />
        <ResourceField onChoose={choose} />
        {id !== "" && (
          <button type="button" onClick={() => setId("")}>
            All resources
          </button>
        )}
        <input aria-label="User" placeholder="user: e-mail or name" defaultValue={who} onBlur={(event) => setWho(event.target.value.trim())} onKeyDown={(event) => event.key === "Enter" && setWho(event.currentTarget.value.trim())} />
      </div>
      {error !== undefined && <Problem error={error} />}
      {data == null ? (
        fetching && <Skeleton lines={4} />
      ) : (
        <div className="stack">
          {who !== "" && <Explained who={who} holders={data.whoCan} what={what} />}
          <Table label="Who can" titles={["User", "Role", "Source"]}>
            {data.whoCan.map((holder) => (
              <tr key={holder.user.id}>
                <td>
                  <strong>{holder.user.email}</strong> <span className="quiet">{holder.user.kind === "SERVICE_ACCOUNT" ? "service account" : holder.user.name}</span>
                </td>
                <td>{byOf(holder)}</td>
                <td className="wide">{whyOf(holder)}</td>
              </tr>
            ))}
          </Table>
        </div>
      )}
    </>
  );
}
