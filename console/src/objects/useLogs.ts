// Streams the logs of pods; the page renders new lines once per animation frame.
import { useEffect, useState } from "react";
import { containersOf, logOf, type LogRequest, type Pod } from "../api/kubeProxy";
import { join, LineReader, type Line } from "./lines";

export type Logs = { readonly lines: readonly Line[]; readonly problems: readonly string[]; readonly open: number };

const NONE: Logs = { lines: [], problems: [], open: 0 };

class LineBuffer {
  private fresh: Line[] = [];
  private frame: number | undefined;

  constructor(private readonly show: (change: (known: Logs) => Logs) => void) {}

  add(lines: readonly Line[]): void {
    // A spread would put each line on the stack, which a large piece overflows.
    for (const line of lines) this.fresh.push(line);
    this.frame ??= requestAnimationFrame(() => this.flush());
  }

  stop(): void {
    if (this.frame !== undefined) cancelAnimationFrame(this.frame);
  }

  private flush(): void {
    const fresh = this.fresh;
    this.fresh = [];
    this.frame = undefined;
    this.show((known) => ({ ...known, lines: join(known.lines, fresh) }));
  }
}

// Error of the API server for a pod with several containers if the request names none.
const UNNAMED = /container name must be specified/;

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

type Kept = { readonly key: string; readonly logs: Logs };

/** Lines of all pods. Starts again when a parameter changes. */
export function useLogs(handle: string, pods: readonly Pod[], options: LogRequest): Logs {
  const begun: Logs = { ...NONE, open: pods.length };
  const [kept, setKept] = useState<Kept>({ key: "", logs: NONE });
  const key = JSON.stringify([handle, pods.map(({ namespace, name }) => [namespace, name]), options]);
  useEffect(() => {
    const [cluster, names, request] = JSON.parse(key) as [string, [string, string][], LogRequest];
    const control = new AbortController();
    const change = (next: (known: Logs) => Logs) =>
      setKept((before) => ({ key, logs: next(before.key === key ? before.logs : { ...NONE, open: names.length }) }));
    const buffer = new LineBuffer(change);
    const readOne = async (pod: Pod, container: string, title: string) => {
      const reader = new LineReader(title);
      for await (const piece of logOf(cluster, pod, { ...request, container }, control.signal)) buffer.add(reader.take(piece));
    };
    const readAll = async (pod: Pod) => {
      const containers = await containersOf(cluster, pod);
      await Promise.all(containers.map(({ name }) => readOne(pod, name, `${pod.name}/${name}`)));
    };
    const read = async ([namespace, name]: [string, string]) => {
      const pod = { namespace, name };
      try {
        await readOne(pod, request.container, name).catch((error: unknown) => {
          if (!UNNAMED.test(messageOf(error))) throw error;
          return readAll(pod);
        });
      } catch (error) {
        if (!control.signal.aborted) change((known) => ({ ...known, problems: [...known.problems, `${name}: ${messageOf(error)}`] }));
      }
      if (!control.signal.aborted) change((known) => ({ ...known, open: known.open - 1 }));
    };
    for (const pod of names) void read(pod);
    return () => {
      control.abort();
      buffer.stop();
    };
  }, [key]);
  return kept.key === key ? kept.logs : begun;
}
