import { useEffect, useState, type SubmitEvent } from "react";
import { useMutation, useQuery, type CombinedError } from "urql";
import { ApproveAccessDocument, AskAccessDocument, MeDocument, RefuseAccessDocument, RequestsDocument, RevokeAccessDocument, RolesDocument, type AskedFragment } from "../api/generated";
import { useNow } from "../live/clock";
import { exactly } from "../text/time";
import { Age } from "../ui/Age";
import { textOf } from "../ui/form";
import { FormBar } from "../ui/FormBar";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Status, type Tone } from "../ui/Status";
import { Table } from "../ui/Table";
import { toast } from "../ui/toast";
import { useParam } from "../ui/useParam";
import { NoPlace } from "./NoPlace";
import { PLACES, scopeOf } from "./scopes";

const FOLLOW = 3_000;

const STATES: Record<AskedFragment["state"], readonly [Tone, string]> = {
  PENDING: ["warn", "Waits"],
  APPROVED: ["ok", "Given"],
  REFUSED: ["bad", "Refused"],
  REVOKED: ["idle", "Taken back"],
};

function Ask({ onDone }: { readonly onDone: () => void }) {
  const [{ data }] = useQuery({ query: RolesDocument });
  const [wanted] = useParam("role");
  const [{ error, fetching }, ask] = useMutation(AskAccessDocument);
  const [lost, lose] = useState("");
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const scope = await scopeOf(textOf(form, "scope"));
    lose(scope === null ? textOf(form, "scope") : "");
    if (scope === null) return;
    const result = await ask({ role: textOf(form, "role"), scope, minutes: Number(textOf(form, "minutes")), reason: textOf(form, "reason") });
    if (result.error !== undefined) return;
    toast("Asked. Somebody else decides.");
    onDone();
  };
  return (
    <form className="form card" onSubmit={(event) => void submit(event)}>
      <h2>Ask for a role for some time</h2>
      <div className="two">
        <label>
          Role
          <select name="role" key={data === undefined ? "" : wanted} defaultValue={wanted}>
            {data?.roles.map(({ id, name }) => (
              <option key={id} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label>
          Minutes
          <input name="minutes" type="number" min={1} max={1440} defaultValue={30} />
        </label>
      </div>
      <label>
        Where <small>{PLACES}</small>
        <input name="scope" required placeholder="cluster/prod" />
      </label>
      <label>
        Why
        <input name="reason" required maxLength={1000} placeholder="release 42 is stuck" />
      </label>
      <FormBar action="Ask" busy={fetching} error={error}>
        <NoPlace named={lost} />
      </FormBar>
    </form>
  );
}

/** Where a request stands; what was given ends by itself. */
function stateOf({ state, expiresAt }: AskedFragment, now: number): readonly [Tone, string] {
  return state === "APPROVED" && expiresAt !== null && new Date(expiresAt).getTime() <= now ? ["idle", "Over"] : STATES[state];
}

/** Every request that one may see, the own ones among them; what can be decided, beside it. */
function Asked({ requests, onProblem }: { readonly requests: readonly AskedFragment[]; readonly onProblem: (error: CombinedError | undefined) => void }) {
  const [me] = useQuery({ query: MeDocument, requestPolicy: "cache-first" });
  const [, approve] = useMutation(ApproveAccessDocument);
  const [, refuse] = useMutation(RefuseAccessDocument);
  const [, revoke] = useMutation(RevokeAccessDocument);
  const now = useNow();
  const told = ({ error }: { readonly error?: CombinedError | undefined }) => onProblem(error);
  if (requests.length === 0) return <p className="quiet">Nobody has asked for anything that you may see.</p>;
  return (
    <Table label="Requests" titles={["Asked", "Who", "Role", "Where", "Minutes", "Why", "State", ""]}>
      {requests.map((one) => {
        const [tone, word] = stateOf(one, now);
        return (
          <tr key={one.id}>
            <td>
              <Age at={one.insertedAt} />
            </td>
            <td>{one.user.email}</td>
            <td>{one.role.name}</td>
            <td>{one.place}</td>
            <td className="number">{one.minutes}</td>
            <td className="wide">{one.reason}</td>
            <td>
              <Status tone={tone}>{word}</Status> <span className="quiet">{one.decidedBy}</span>
              {word === "Given" && one.expiresAt !== null && <span className="quiet"> until {exactly(one.expiresAt)}</span>}
            </td>
            <td>
              {one.state === "PENDING" && one.user.id !== me.data?.me.id && (
                <>
                  <button type="button" className="primary" onClick={() => void approve({ id: one.id }).then(told)}>
                    Give it
                  </button>{" "}
                  <button type="button" onClick={() => void refuse({ id: one.id }).then(told)}>
                    Refuse
                  </button>
                </>
              )}
              {word === "Given" && (
                <button type="button" onClick={() => void revoke({ id: one.id }).then(told)}>
                  Take it back
                </button>
              )}
            </td>
          </tr>
        );
      })}
    </Table>
  );
}

/** Access for some minutes: asked for by one, given by another, ended by itself. */
export function Requests() {
  const [{ data, error }, again] = useQuery({ query: RequestsDocument, requestPolicy: "network-only" });
  const [problem, complain] = useState<CombinedError>();
  useEffect(() => {
    const timer = setInterval(() => again({ requestPolicy: "network-only" }), FOLLOW);
    return () => clearInterval(timer);
  }, [again]);
  return (
    <div className="stack">
      <Ask onDone={() => again({ requestPolicy: "network-only" })} />
      {problem !== undefined && <Problem error={problem} />}
      {error !== undefined && data == null && <Problem error={error} />}
      {data == null ? error === undefined && <Skeleton lines={4} /> : <Asked requests={data.accessRequests} onProblem={complain} />}
    </div>
  );
}
