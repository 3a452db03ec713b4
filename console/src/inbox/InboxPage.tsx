import { CheckCircle2, KeyRound, ShieldCheck, Trash2, TriangleAlert, type LucideIcon } from "lucide-react";
import { useState, type KeyboardEvent, type ReactNode } from "react";
import { useMutation, useQuery, type CombinedError } from "urql";
import { Link } from "wouter";
import { ApproveAccessDocument, DenyAccessDocument, InboxDocument, RetryStageDocument, SyncServiceDocument } from "../api/generated";
import { useFollow } from "../live/useFollow";
import { GateDecision } from "../pipelines/Gates";
import { DeletionApproval } from "../services/PendingDeletions";
import { counted } from "../text/counts";
import { Age } from "../ui/Age";
import { Chips } from "../ui/Chips";
import { Empty } from "../ui/Empty";
import { Person } from "../ui/Person";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { toast } from "../ui/toast";
import { useLast } from "../ui/useLast";
import { useParam } from "../ui/useParam";
import { useRowKeys } from "../ui/useRowKeys";
import { countOf, itemsOf, KINDS, type InboxItem, type ItemKind } from "./items";
import { INBOX_INTERVAL } from "./useInboxTotal";
import "./inbox.css";

const ICONS: Readonly<Record<ItemKind, LucideIcon>> = { approval: ShieldCheck, deletion: Trash2, access: KeyRound, failure: TriangleAlert };

/** Items of each kind that are loaded first, and at most. */
const PAGE = 50;
const MAX_PAGE = 1000;

type Of<Kind extends ItemKind> = Extract<InboxItem, { readonly kind: Kind }>;
type Content = { readonly title: string; readonly path: string; readonly context: ReactNode; readonly reason: string; readonly actions: ReactNode };

/** Button that runs a mutation, with its error. */
function Action({ title, primary = false, run, error, busy }: { readonly title: string; readonly primary?: boolean; readonly run: () => void; readonly error?: CombinedError | undefined; readonly busy: boolean }) {
  return (
    <>
      <button type="button" className={primary ? "primary" : ""} disabled={busy} onClick={run}>
        {title}
      </button>
      {error !== undefined && <Problem error={error} />}
    </>
  );
}

function AccessActions({ request: { id, user, role }, onDone }: { readonly request: Of<"access">["request"]; readonly onDone: () => void }) {
  const [approved, approve] = useMutation(ApproveAccessDocument);
  const [denied, deny] = useMutation(DenyAccessDocument);
  const say = (text: string) => (result: { readonly error?: unknown }) => {
    if (result.error !== undefined) return;
    toast(text);
    onDone();
  };
  return (
    <>
      <Action title="Approve" primary busy={approved.fetching} error={approved.error} run={() => void approve({ id }).then(say(`${user.email} has the role ${role.name}`))} />
      <Action title="Deny" busy={denied.fetching} error={denied.error} run={() => void deny({ id }).then(say("Request denied"))} />
    </>
  );
}

function RetryAction({ pipelineId, stage, onDone }: { readonly pipelineId: string; readonly stage: string; readonly onDone: () => void }) {
  const [{ error, fetching }, retry] = useMutation(RetryStageDocument);
  const go = async () => {
    const result = await retry({ id: pipelineId, stage });
    if (result.error !== undefined) return;
    toast(`Retry of ${stage} started`);
    onDone();
  };
  return <Action title="Retry" primary busy={fetching} error={error} run={() => void go()} />;
}

function SyncAction({ id, name, onDone }: { readonly id: string; readonly name: string; readonly onDone: () => void }) {
  const [{ error, fetching }, sync] = useMutation(SyncServiceDocument);
  const go = async () => {
    const result = await sync({ id });
    if (result.error !== undefined) return;
    toast(`Sync of ${name} started`);
    onDone();
  };
  return <Action title="Sync now" primary busy={fetching} error={error} run={() => void go()} />;
}

const placed = (service: { readonly name: string; readonly cluster: { readonly handle: string } | null }): string => `${service.cluster?.handle ?? "deleted cluster"}/${service.name}`;

function approvalContent({ pipeline, gate, question }: Of<"approval">, onDone: () => void): Content {
  return {
    title: `Approve release #${question.release?.number ?? "?"} for ${question.stage}`,
    path: `/pipelines/${pipeline.id}/gates/${gate.id}`,
    context: (
      <>
        {pipeline.name} · {question.place} · {question.release !== null && <Person author={question.release.author} />} · {counted(question.digests.length, "service")}
      </>
    ),
    reason: gate.reason,
    actions: <GateDecision gate={gate} question={question} onDone={onDone} />,
  };
}

function deletionContent({ service }: Of<"deletion">, onDone: () => void): Content {
  return {
    title: `Approve ${counted(service.awaiting.length, "deletion")} of ${service.name}`,
    path: `/services/${service.id}`,
    context: placed(service),
    reason: service.awaiting.slice(0, 3).map(({ kind, name }) => `${kind} ${name}`).join(", ") + (service.awaiting.length > 3 ? `, and ${service.awaiting.length - 3} more` : ""),
    actions: <DeletionApproval service={service} onDone={onDone} />,
  };
}

function accessContent({ request }: Of<"access">, onDone: () => void): Content {
  return {
    title: `${request.user.name || request.user.email} requests ${request.role.name}`,
    path: "/access?tab=requests",
    context: `${request.place} · ${counted(request.minutes, "minute")}`,
    reason: request.reason,
    actions: <AccessActions request={request} onDone={onDone} />,
  };
}

function failureContent(item: Of<"failure">, onDone: () => void): Content {
  if ("service" in item) {
    const { service } = item;
    return {
      title: `${service.name} failed`,
      path: `/services/${service.id}`,
      context: `${placed(service)} · ${service.sha?.slice(0, 8) ?? "never deployed"}`,
      reason: service.errors[0]?.message ?? service.message ?? "no reason reported",
      actions: (
        <>
          <SyncAction id={service.id} name={service.name} onDone={onDone} />
          {service.sha !== null && (
            <Link className="button" href={`/services/${service.id}?tab=history`}>
              Roll back…
            </Link>
          )}
        </>
      ),
    };
  }
  const { pipeline, stage, reason } = item;
  return {
    title: `Rollout to ${stage.name} failed`,
    path: `/pipelines/${pipeline.id}`,
    context: `${pipeline.name}${stage.release === null ? "" : ` · release #${stage.release.number}`}`,
    reason,
    actions: <RetryAction pipelineId={pipeline.id} stage={stage.name} onDone={onDone} />,
  };
}

function contentOf(item: InboxItem, onDone: () => void): Content {
  switch (item.kind) {
    case "approval":
      return approvalContent(item, onDone);
    case "deletion":
      return deletionContent(item, onDone);
    case "access":
      return accessContent(item, onDone);
    case "failure":
      return failureContent(item, onDone);
  }
}

/** `a` presses the first button of the focused item, `x` the second. */
function pressButton(event: KeyboardEvent<HTMLLIElement>): void {
  const place = { a: 0, x: 1 }[event.key];
  if (place === undefined || event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement || event.ctrlKey || event.metaKey || event.altKey) return;
  const found = event.currentTarget.querySelectorAll<HTMLElement>(".inbox-actions :is(button, a.button)")[place];
  if (found === undefined || event.currentTarget.querySelector("dialog[open]") !== null) return;
  event.preventDefault();
  found.click();
}

function Row({ item, onDone }: { readonly item: InboxItem; readonly onDone: () => void }) {
  const { title, path, context, reason, actions } = contentOf(item, onDone);
  const Icon = ICONS[item.kind];
  return (
    <li className={`inbox-item ${item.kind}`} onKeyDown={pressButton}>
      <Icon size={18} aria-hidden="true" className="inbox-icon" />
      <div className="inbox-text">
        <Link href={path} data-row="">
          {title}
        </Link>
        <p className="quiet">{context}</p>
        {reason !== "" && <p className="inbox-reason">{reason}</p>}
      </div>
      <Age at={item.at} never="" />
      <div className="inbox-actions">{actions}</div>
    </li>
  );
}

/** Everything that waits for the user: approvals, deletions, access requests and failures, with their actions. */
export function InboxPage() {
  const [first, setFirst] = useState(PAGE);
  const [{ data: found, error, fetching }, refetch] = useQuery({ query: InboxDocument, variables: { first } });
  const data = useLast(found);
  const [kind] = useParam("kind");
  useFollow(refetch, INBOX_INTERVAL);
  useRowKeys();
  const reload = () => refetch({ requestPolicy: "network-only" });
  const items = data == null ? [] : itemsOf(data.inbox);
  const shown = items.filter((item) => kind === "" || item.kind === kind);
  return (
    <>
      <div className="bar">
        <h1>Needs you</h1>
        <Chips label="Kind" name="kind" options={KINDS.map(([key, title]) => [key, `${title} ${data == null ? "" : countOf(data.inbox, key).toLocaleString()}`.trim()] as const)} />
        <span className="fill" />
        <span className="quiet keys-hint">
          <kbd>j</kbd> <kbd>k</kbd> move <kbd>a</kbd> first action <kbd>x</kbd> second action <kbd>Enter</kbd> open
        </span>
      </div>
      {error !== undefined && data == null && <Problem error={error} />}
      {data == null && error === undefined && <Skeleton lines={8} />}
      {data != null && shown.length === 0 && <Nothing filtered={items.length > 0} />}
      {shown.length > 0 && (
        <ul className="inbox card" aria-label="Items that need you">
          {shown.map((item) => (
            <Row key={`${item.kind} ${item.key}`} item={item} onDone={reload} />
          ))}
        </ul>
      )}
      {data?.inbox.hasMore === true && <More total={countOf(data.inbox, kind)} shown={shown.length} busy={fetching} onMore={first >= MAX_PAGE ? null : () => setFirst(Math.min(MAX_PAGE, first * 2))} />}
    </>
  );
}

type MoreProps = { readonly total: number; readonly shown: number; readonly busy: boolean; readonly onMore: (() => void) | null };

/** Number of items that are not loaded yet, and a button that loads more of them. */
function More({ total, shown, busy, onMore }: MoreProps) {
  if (shown >= total) return null;
  return (
    <div className="bar inbox-more">
      <p className="quiet" role="status">
        {shown.toLocaleString()} of {total.toLocaleString()} items
      </p>
      {onMore !== null ? (
        <button type="button" disabled={busy} onClick={onMore}>
          Show more
        </button>
      ) : (
        <>
          <Link href="/services?status=FAILED">All failed services</Link> <Link href="/services?status=AWAITING_APPROVAL">All services that await approval</Link>
        </>
      )}
    </div>
  );
}

function Nothing({ filtered }: { readonly filtered: boolean }) {
  if (filtered) return <Empty title="Nothing of this kind">Other kinds have items; select All.</Empty>;
  return (
    <Empty title="Nothing needs you">
      <CheckCircle2 size={28} aria-hidden="true" className="inbox-done" />
      <p>Approvals, deletions, access requests and failed rollouts appear here if you may act on them.</p>
    </Empty>
  );
}
