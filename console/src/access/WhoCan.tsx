import { useState } from "react";
import { useQuery } from "urql";
import { PlacesDocument, WhoCanDocument, type PlaceKind, type ThingKind, type WhoCanQuery } from "../api/generated";
import { exactly } from "../text/time";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Status } from "../ui/Status";
import { Suggested } from "../ui/Suggested";
import { Table } from "../ui/Table";
import { useParam } from "../ui/useParam";
import { KINDS, VERBS } from "./rights";
import "./rights.css";

type Holder = WhoCanQuery["whoCan"][number];

// Clusters are grouped, but rights are not given on groups.
const PLACED: Partial<Record<PlaceKind, ThingKind>> = { CLUSTER: "CLUSTER", SERVICE: "SERVICE", REPOSITORY: "REPOSITORY", PIPELINE: "PIPELINE" };

const whyOf = ({ reasons }: Holder): string => reasons.map(({ why, expiresAt }) => (expiresAt === null ? why : `${why} until ${exactly(expiresAt)}`)).join("; ");
const byOf = ({ reasons }: Holder): string => reasons.map(({ role, scope }) => `${role} in ${scope}`).join(", ");

/** A thing by its name: what is typed is looked up, what is chosen counts. */
function PlaceField({ onChoose }: { readonly onChoose: (kind: ThingKind, id: string) => void }) {
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
    <Suggested label="A certain one, by its name" placeholder="which one? empty: everywhere" value={text} offered={places.map(({ title }) => title)} onChange={change} />
  );
}

function Choice({ label, name, value, options }: { readonly label: string; readonly name: string; readonly value: string; readonly options: readonly string[] }) {
  const [, change] = useParam(name);
  return (
    <select aria-label={label} value={value} onChange={(event) => change(event.target.value)}>
      {options.map((one) => (
        <option key={one} value={one}>
          {one.toLowerCase()}
        </option>
      ))}
    </select>
  );
}

/** May one person do it, and by what; if not, who is to be asked. */
function Explained({ who, holders, what }: { readonly who: string; readonly holders: readonly Holder[]; readonly what: string }) {
  const wanted = who.toLowerCase();
  const holder = holders.find(({ user }) => user.email.toLowerCase() === wanted || user.name.toLowerCase() === wanted);
  return (
    <section className={`card explained ${holder === undefined ? "no" : "yes"}`} aria-label="Explained">
      {holder === undefined ? (
        <>
          <Status tone="bad">No</Status> {who} may not {what}: no role that they have, by themselves or by a group, has this right there. The list below can.
        </>
      ) : (
        <>
          <Status tone="ok">Yes</Status> {holder.user.email} may {what}: {byOf(holder)}, {whyOf(holder)}.
        </>
      )}
    </section>
  );
}

/** Everybody who may do something, and by what; or whether one person may, and why. */
export function WhoCan() {
  const [verb] = useParam("verb");
  const [kind, setKind] = useParam("kind");
  const [id, setId] = useParam("of");
  const [who, setWho] = useParam("person");
  const asked = { verb: VERBS.find((one) => one === verb) ?? "WRITE", kind: KINDS.find((one) => one === kind) ?? "SERVICE", id: id || null };
  const [{ data, error, fetching }] = useQuery({ query: WhoCanDocument, variables: asked });
  const what = `${asked.verb.toLowerCase()} ${asked.id === null ? `any ${asked.kind.toLowerCase()}` : `this ${asked.kind.toLowerCase()}`}`;
  const choose = (of: ThingKind, chosen: string) => {
    if (of !== asked.kind) setKind(of);
    setId(chosen);
  };
  return (
    <>
      <div className="bar">
        Who can
        <Choice label="What" name="verb" value={asked.verb} options={VERBS} />
        <Choice label="Of which kind" name="kind" value={asked.kind} options={KINDS} />
        <PlaceField onChoose={choose} />
        {id !== "" && (
          <button type="button" onClick={() => setId("")}>
            everywhere
          </button>
        )}
        <input aria-label="One person" placeholder="one person? e-mail or name" defaultValue={who} onBlur={(event) => setWho(event.target.value.trim())} onKeyDown={(event) => event.key === "Enter" && setWho(event.currentTarget.value.trim())} />
      </div>
      {error !== undefined && <Problem error={error} />}
      {data == null ? (
        fetching && <Skeleton lines={4} />
      ) : (
        <div className="stack">
          {who !== "" && <Explained who={who} holders={data.whoCan} what={what} />}
          <Table label="Who can" titles={["Who", "By", "Why"]}>
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
