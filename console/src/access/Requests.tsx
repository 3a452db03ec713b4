import { useEffect, useState, type SubmitEvent } from "react";
import { useMutation, useQuery, type CombinedError } from "urql";
import { ApproveAccessDocument, RequestAccessDocument, MeDocument, DenyAccessDocument, RequestsDocument, RevokeAccessDocument, RolesDocument, type AccessRequestRowFragment } from "../api/generated";
import { useNow } from "../live/clock";
import { exactly } from "../text/time";
import { Age } from "../ui/Age";
import { Clip } from "../ui/Clip";
import { textOf } from "../ui/form";
import { FormBar } from "../ui/FormBar";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { REQUEST_STATES, STATES, type State } from "../ui/states";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";
import { toast } from "../ui/toast";
import { useParam } from "../ui/useParam";
import { UnknownScope } from "./UnknownScope";
import { SCOPE_HINT, scopeId } from "./scopes";

const FOLLOW = 3_000;

function RequestForm({ onDone }: { readonly onDone: () => void }) {
  const [{ data }] = useQuery({ query: RolesDocument });
  const [suggested] = useParam("role");
  const [{ error, fetching }, requestAccess] = useMutation(RequestAccessDocument);
  const [unknown, setUnknown] = useState("");
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const scope = await scopeId(textOf(form, "scope"));
    setUnknown(scope === null ? textOf(form, "scope") : "");
    if (scope === null) return;
    const result = await requestAccess({ role: textOf(form, "role"), scope, minutes: Number(textOf(form, "minutes")), reason: textOf(form, "reason") });
    if (result.error !== undefined) return;
    toast("Access requested");
    onDone();
  };
  return (
    <form className="form card" onSubmit={(event) => void submit(event)}>
      <h2>Request temporary access</h2>
      <div className="two">
        <label>
          Role
          <select name="role" key={data === undefined ? "" : suggested} defaultValue={suggested}>
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
        Scope <small>{SCOPE_HINT}</small>
        <input name="scope" required placeholder="cluster/prod" />
      </label>
      <label>
        Reason
        <input name="reason" required maxLength={1000} placeholder="release 42 is stuck" />
      </label>
      <FormBar action="Request access" busy={fetching} error={error}>
        <UnknownScope named={unknown} />
      </FormBar>
    </form>
  );
}

/** State of a request. Granted access expires without a further change by the server. */
function stateOf({ state, expiresAt }: AccessRequestRowFragment, now: number): State {
  return state === "APPROVED" && expiresAt !== null && new Date(expiresAt).getTime() <= now ? STATES.expired : REQUEST_STATES[state];
}

/** Requests that the user may read, with decision buttons. */
function RequestTable({ requests, onProblem }: { readonly requests: readonly AccessRequestRowFragment[]; readonly onProblem: (error: CombinedError | undefined) => void }) {
  const [me] = useQuery({ query: MeDocument, requestPolicy: "cache-first" });
  const [, approve] = useMutation(ApproveAccessDocument);
  const [, refuse] = useMutation(DenyAccessDocument);
  const [, revoke] = useMutation(RevokeAccessDocument);
  const now = useNow();
  const report = (done: string) => ({ error }: { readonly error?: CombinedError | undefined }) => {
    onProblem(error);
    if (error === undefined) toast(done);
  };
  if (requests.length === 0) return <p className="quiet">No access requests.</p>;
  return (
    <Table label="Requests" titles={["Requested", "User", "Role", "Scope", "Minutes", "Reason", "State", ""]} numbers={["Minutes"]}>
      {requests.map((request) => {
        const state = stateOf(request, now);
        const isGranted = state === STATES.granted;
        return (
          <tr key={request.id}>
            <td>
              <Age at={request.insertedAt} />
            </td>
            <td>
              <Clip>{request.user.email}</Clip>
            </td>
            <td>
              <Clip>{request.role.name}</Clip>
            </td>
            <td>
              <Clip>{request.place}</Clip>
            </td>
            <td className="number">{request.minutes}</td>
            <td className="wide">{request.reason}</td>
            <td>
              <Status state={state} /> <span className="quiet">{request.decidedBy}</span>
              {isGranted && request.expiresAt !== null && <span className="quiet"> expires {exactly(request.expiresAt)}</span>}
            </td>
            <td>
              {request.state === "PENDING" && request.user.id !== me.data?.me.id && (
                <>
                  <button type="button" className="primary" onClick={() => void approve({ id: request.id }).then(report(`${request.user.email} has the role ${request.role.name}`))}>
                    Approve
                  </button>{" "}
                  <button type="button" onClick={() => void refuse({ id: request.id }).then(report("Request denied"))}>
                    Deny
                  </button>
                </>
              )}
              {isGranted && (
                <button type="button" onClick={() => void revoke({ id: request.id }).then(report("Access revoked"))}>
                  Revoke
                </button>
              )}
            </td>
          </tr>
        );
      })}
    </Table>
  );
}

/** Temporary access: requested by request user, approved by another, expires automatically. */
export function Requests() {
  const [{ data, error }, refetch] = useQuery({ query: RequestsDocument, requestPolicy: "network-only" });
  const [problem, complain] = useState<CombinedError>();
  useEffect(() => {
    const timer = setInterval(() => refetch({ requestPolicy: "network-only" }), FOLLOW);
    return () => clearInterval(timer);
  }, [refetch]);
  return (
    <div className="stack">
      <RequestForm onDone={() => refetch({ requestPolicy: "network-only" })} />
      {problem !== undefined && <Problem error={problem} />}
      {error !== undefined && data == null && <Problem error={error} />}
      {data == null ? error === undefined && <Skeleton lines={4} /> : <RequestTable requests={data.accessRequests} onProblem={complain} />}
    </div>
  );
}
