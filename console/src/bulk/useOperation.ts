// State of an operation: plans for each target, then results for each target.
import { useCallback, useEffect, useRef, useState } from "react";
import { refresh } from "../api/client";
import { complaintsOf } from "../manage/values";
import type { Values } from "../manage/kind";
import { inParallel, reasonOf, type Operation, type Row } from "./operation";

// Delay before a new plan, in milliseconds, so that typing a number asks once.
const PAUSE = 250;

export type Phase = "planning" | "planned" | "running" | "ended";

export type Progress<Target, Planned> = {
  readonly rows: readonly Row<Target, Planned>[];
  readonly phase: Phase;
  readonly values: Values;
  readonly complaints: readonly string[];
  readonly change: (values: Values) => void;
  readonly start: () => void;
  readonly stop: () => void;
  readonly retry: () => void;
};

const isFailed = <Target, Planned>({ result }: Row<Target, Planned>): boolean => typeof result === "object";

export function useOperation<Target, Planned>(operation: Operation<Target, Planned>, targets: readonly Target[]): Progress<Target, Planned> {
  const { fields = [], initial = {} } = operation;
  const [values, setValues] = useState<Values>(initial);
  const fresh = () => targets.map((target): Row<Target, Planned> => ({ target, plan: null, result: "waiting", undo: null }));
  const [rows, setRows] = useState(fresh);
  const [phase, setPhase] = useState<Phase>("planning");
  const latest = useRef({ operation, targets });
  const round = useRef(0);
  const isStopped = useRef(false);
  const complaints = complaintsOf(fields, values);
  const isValid = complaints.length === 0;
  const put = useCallback((index: number, part: Partial<Row<Target, Planned>>) => setRows((known) => known.map((row, at) => (at === index ? { ...row, ...part } : row))), []);

  useEffect(() => {
    if (!isValid) return undefined;
    const mine = ++round.current;
    const isOld = () => round.current !== mine;
    const plan = async () => {
      const { operation: current, targets: all } = latest.current;
      await inParallel(
        all,
        async (target, index) => {
          const made = await current.plan(target, values).catch((error: unknown) => ({ kind: "refused" as const, reason: reasonOf(error) }));
          if (!isOld()) put(index, { plan: made });
        },
        isOld,
      );
      if (!isOld()) setPhase("planned");
    };
    const timer = setTimeout(() => void plan(), mine === 1 ? 0 : PAUSE);
    return () => {
      clearTimeout(timer);
      round.current += 1;
    };
  }, [values, isValid, put]);

  const run = async (chosen: readonly Row<Target, Planned>[]) => {
    isStopped.current = false;
    setPhase("running");
    const known = rows;
    await inParallel(
      chosen,
      async (row) => {
        const index = known.indexOf(row);
        if (row.plan?.kind !== "ready") return;
        put(index, { result: "running" });
        const part = await operation.run(row.plan.planned, row.target, values).then(
          (undo) => ({ result: "done" as const, undo }),
          (error: unknown) => ({ result: { error: reasonOf(error) } }),
        );
        put(index, part);
      },
      () => isStopped.current,
    );
    setRows((all) => all.map((row) => (row.result === "waiting" && row.plan?.kind === "ready" ? { ...row, result: "skipped" } : row)));
    setPhase("ended");
    refresh();
  };

  return {
    rows,
    phase,
    values,
    complaints,
    change: (next) => {
      setPhase("planning");
      setRows(fresh);
      setValues(next);
    },
    start: () => void run(rows),
    stop: () => {
      isStopped.current = true;
    },
    retry: () => void run(rows.filter((row) => isFailed(row) || row.result === "skipped")),
  };
}
