import { useQuery } from "urql";
import { WhoCanDocument, type ThingKind, type Verb } from "../api/generated";
import { exactly } from "../text/time";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Table } from "../ui/Table";
import { useParam } from "../ui/useParam";

const VERBS: readonly Verb[] = ["READ", "WRITE", "APPROVE", "CONNECT", "ADMINISTER"];
const KINDS: readonly ThingKind[] = ["SERVICE", "CLUSTER", "PIPELINE", "REPOSITORY", "PROJECT", "SECRET", "CONTEXT", "USER", "ROLE", "BINDING", "AUDIT", "INSTALLATION"];

/** Everybody who may do something, and by what. */
export function WhoCan() {
  const [verb, setVerb] = useParam("verb");
  const [kind, setKind] = useParam("kind");
  const [id, setId] = useParam("of");
  const asked = { verb: VERBS.find((one) => one === verb) ?? "WRITE", kind: KINDS.find((one) => one === kind) ?? "SERVICE", id: id || null };
  const [{ data, error, fetching }] = useQuery({ query: WhoCanDocument, variables: asked });
  return (
    <>
      <div className="bar">
        Who can
        <select aria-label="What" value={asked.verb} onChange={(event) => setVerb(event.target.value)}>
          {VERBS.map((one) => (
            <option key={one} value={one}>
              {one.toLowerCase()}
            </option>
          ))}
        </select>
        <select aria-label="Of which kind" value={asked.kind} onChange={(event) => setKind(event.target.value)}>
          {KINDS.map((one) => (
            <option key={one} value={one}>
              {one.toLowerCase()}
            </option>
          ))}
        </select>
        <input aria-label="Its id; empty: everywhere" placeholder="id; empty: everywhere" defaultValue={id} onBlur={(event) => setId(event.target.value.trim())} />
      </div>
      {error !== undefined && <Problem error={error} />}
      {data == null ? (
        fetching && <Skeleton lines={4} />
      ) : (
        <Table label="Who can" titles={["Who", "By", "Why"]}>
          {data.whoCan.map(({ user, reasons }) => (
            <tr key={user.id}>
              <td>
                <strong>{user.email}</strong> <span className="quiet">{user.kind === "SERVICE_ACCOUNT" ? "service account" : user.name}</span>
              </td>
              <td>{reasons.map(({ role, scope }) => `${role} in ${scope}`).join(", ")}</td>
              <td className="wide">{reasons.map(({ why, expiresAt }) => (expiresAt === null ? why : `${why} until ${exactly(expiresAt)}`)).join("; ")}</td>
            </tr>
          ))}
        </Table>
      )}
    </>
  );
}
