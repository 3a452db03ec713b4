import { useEffect, useId, useRef } from "react";
import { Fields } from "../manage/Fields";
import { counted } from "../text/counts";
import { CopyButton } from "../ui/CopyButton";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { toast } from "../ui/toast";
import { allOf } from "../undo/inverses";
import type { Operation, Plan, Row } from "./operation";
import { useOperation, type Phase } from "./useOperation";
import "../ui/confirm.css";
import "../manage/manage.css";
import "./bulk.css";

const MAX_CHANGES = 12;

function Effect<Planned>({ plan }: { readonly plan: Plan<Planned> | null }) {
  if (plan === null) return <span className="quiet">Checking…</span>;
  if (plan.kind !== "ready") return <span className={plan.kind === "refused" ? "status bad" : "quiet"}>{plan.reason}</span>;
  const { changes, notes = [] } = plan;
  return (
    <>
      {changes.slice(0, MAX_CHANGES).map(({ field, before, after }) => (
        <div key={field} className="effect">
          <span className="quiet">{field}</span> {before !== null && <del className="value">{before}</del>} {after !== null && <ins className="value">{after}</ins>}
        </div>
      ))}
      {changes.length > MAX_CHANGES && <div className="quiet">and {counted(changes.length - MAX_CHANGES, "more field")}</div>}
      {notes.map((note) => (
        <div key={note} className="effect-note">
          {note}
        </div>
      ))}
    </>
  );
}

function Result<Target, Planned>({ row: { plan, result } }: { readonly row: Row<Target, Planned> }) {
  if (typeof result === "object") return <Status state={STATES.failed} detail={result.error} />;
  if (result === "done") return <Status state={STATES.succeeded} />;
  if (result === "running") return <Status state={STATES.running} />;
  if (result === "skipped") return <Status state={STATES.cancelled} detail="not started" />;
  if (plan?.kind === "refused") return <Status state={STATES.blocked} />;
  if (plan?.kind === "unchanged") return <Status state={STATES.noChanges} />;
  return plan === null ? null : <Status state={STATES.pending} />;
}

function Rows<Target, Planned>({ operation, rows }: { readonly operation: Operation<Target, Planned>; readonly rows: readonly Row<Target, Planned>[] }) {
  return (
    <div className="table-frame plan" tabIndex={0} role="region" aria-label="Plan">
      <table className="table">
        <thead>
          <tr>
            {["Target", "Effect", "Result"].map((title) => (
              <th key={title} scope="col">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={operation.key(row.target)}>
              <td className="wide">{operation.name(row.target)}</td>
              <td className="wide">
                <Effect plan={row.plan} />
              </td>
              <td className="wide">
                <Result row={row} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Numbers of the plan or of the results, as one sentence. */
function summary<Target, Planned>({ noun, done }: Operation<Target, Planned>, rows: readonly Row<Target, Planned>[], phase: Phase): string {
  const of = (test: (row: Row<Target, Planned>) => boolean) => rows.filter(test).length;
  const failed = of(({ result }) => typeof result === "object");
  const parts: readonly (readonly [number, string])[] =
    phase === "running" || phase === "ended"
      ? [[of(({ result }) => result === "done"), done], [failed, "failed"], [of(({ result }) => result === "skipped"), "not started"]]
      : [[of(({ plan }) => plan?.kind === "ready"), "ready"]];
  const rest: readonly (readonly [number, string])[] = [[of(({ plan }) => plan?.kind === "unchanged"), "without changes"], [of(({ plan }) => plan?.kind === "refused"), "not possible"]];
  const shown = [...parts, ...rest].filter(([count]) => count > 0).map(([count, words]) => `${count.toLocaleString()} ${words}`);
  return `${counted(rows.length, noun)}${shown.length === 0 ? "" : `: ${shown.join(", ")}`}`;
}

type Props<Target, Planned> = { readonly operation: Operation<Target, Planned>; readonly targets: readonly Target[]; readonly onDone: () => void };

/** Dialog of an operation: its effect on each target, the equivalent command and YAML, and a result for each target. */
export function PlanDialog<Target, Planned>({ operation, targets, onDone }: Props<Target, Planned>) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  const { rows, phase, values, complaints, change, start, stop, retry } = useOperation(operation, targets);
  useEffect(() => dialog.current?.showModal(), []);
  const isOne = targets.length === 1;
  const allDone = phase === "ended" && rows.every(({ result }) => result === "done");
  useEffect(() => {
    if (!allDone || !isOne) return;
    toast(`${targets.map(operation.name).join()} ${operation.done}`, rows[0]?.undo ?? null);
    onDone();
  }, [allDone, isOne, operation, targets, rows, onDone]);
  const close = () => {
    const done = rows.filter(({ result }) => result === "done");
    const undos = done.flatMap(({ undo }) => undo ?? []);
    // Behind the dialog, nobody would reach the button.
    if (!isOne && undos.length > 0 && undos.length === done.length) toast(`${counted(done.length, operation.noun)} ${operation.done}`, allOf(undos));
    onDone();
  };
  const planned = rows.flatMap(({ plan }) => (plan?.kind === "ready" ? [plan.planned] : []));
  const ready = rows.filter(({ plan }) => plan?.kind === "ready");
  const yaml = phase === "planning" ? "" : operation.yaml(planned);
  const commands = complaints.length > 0 ? [] : operation.commands(ready.map(({ target }) => target), values);
  const failed = rows.some(({ result }) => typeof result === "object" || result === "skipped");
  return (
    <dialog ref={dialog} className="confirm action-dialog plan-dialog" aria-labelledby={heading} onClose={close}>
      <h2 id={heading}>{operation.title}</h2>
      <p>{operation.consequence}</p>
      <form
        className="form"
        onSubmit={(event) => {
          event.preventDefault();
          if (phase === "planned" && ready.length > 0) start();
        }}
      >
        {phase !== "running" && phase !== "ended" && operation.fields !== undefined && <Fields fields={operation.fields} values={values} onChange={change} />}
        {complaints.map((complaint) => (
          <p key={complaint} className="status bad">
            {complaint}
          </p>
        ))}
        <Rows operation={operation} rows={rows} />
        {commands.length > 0 && <pre className="block commands">{commands.join("\n")}</pre>}
        <div className="bar">
          {commands.length > 0 && <CopyButton text={commands.join("\n")} title="Copy as command" />}
          {yaml !== "" && <CopyButton text={yaml} title="Copy as YAML" />}
          <span className="fill" />
          <span className="quiet" role="status">
            {phase === "planning" ? "Checking…" : summary(operation, rows, phase)}
          </span>
        </div>
        <div className="bar">
          <span className="fill" />
          {phase === "ended" ? (
            <>
              {failed && (
                <button type="button" onClick={retry}>
                  Retry failed
                </button>
              )}
              <button type="button" className="primary" onClick={close}>
                Close
              </button>
            </>
          ) : (
            <>
              {phase === "running" ? (
                <button type="button" onClick={stop}>
                  Stop
                </button>
              ) : (
                <button type="button" onClick={onDone}>
                  Cancel
                </button>
              )}
              <button type="submit" className={operation.isDangerous === true ? "danger" : "primary"} disabled={phase !== "planned" || ready.length === 0 || complaints.length > 0}>
                {operation.title}
              </button>
            </>
          )}
        </div>
      </form>
    </dialog>
  );
}
