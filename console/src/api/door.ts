// The Kubernetes door: a cluster's own API, as the one who is signed in.
import { CSRF, ticket } from "./client";

export type Pod = { readonly namespace: string; readonly name: string };

/** The address of something in a cluster; every part is escaped. */
export function doorPath(handle: string, ...parts: readonly string[]): string {
  return ["/k8s/clusters", handle, ...parts].map((part, index) => (index === 0 ? part : encodeURIComponent(part))).join("/");
}

const podPath = (handle: string, { namespace, name }: Pod, ...more: readonly string[]) =>
  doorPath(handle, "api", "v1", "namespaces", namespace, "pods", name, ...more);

/** What the door says when it refuses; it answers with Kubernetes' own Status. */
async function refusal(response: Response): Promise<Error> {
  const text = await response.text();
  try {
    const { message } = JSON.parse(text) as { readonly message?: unknown };
    if (typeof message === "string") return new Error(message);
  } catch {
    // Not a Status: the text says what there is to say.
  }
  return new Error(text.slice(0, 300) || `the cluster answered ${response.status}`);
}

type PodSpec = { readonly containers?: readonly { readonly name: string; readonly ports?: readonly { readonly containerPort: number }[] }[] };
export type Container = { readonly name: string; readonly ports: readonly number[] };

/** A pod's containers, the first one first, with the ports that they say they listen on. */
export async function containersOf(handle: string, pod: Pod): Promise<readonly Container[]> {
  const response = await fetch(podPath(handle, pod), { headers: { ...CSRF, Accept: "application/json" } });
  if (!response.ok) throw await refusal(response);
  const { spec } = (await response.json()) as { readonly spec?: PodSpec };
  return spec?.containers?.map(({ name, ports }) => ({ name, ports: ports?.map(({ containerPort }) => containerPort) ?? [] })) ?? [];
}

export type LogRequest = { readonly container: string; readonly follow: boolean; readonly tail: number; readonly previous: boolean };

const BEARER = "base64url.bearer.authorization.k8s.io.";

/** A WebSocket through the door, opened by a ticket. */
async function socketTo(path: string, protocol: string): Promise<WebSocket> {
  const secret = btoa(await ticket()).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const socket = new WebSocket(`${scheme}://${location.host}${path}`, [protocol, `${BEARER}${secret}`]);
  socket.binaryType = "arraybuffer";
  return socket;
}

/** What comes through a WebSocket until it ends or is aborted; null: it was not let in. */
async function streamOf(socket: WebSocket, signal: AbortSignal): Promise<ReadableStream<Uint8Array<ArrayBuffer>> | null> {
  const end = () => socket.close();
  if (signal.aborted) end();
  signal.addEventListener("abort", end);
  const stream = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start: (control) => {
      socket.addEventListener("message", ({ data }: MessageEvent<ArrayBuffer>) => control.enqueue(new Uint8Array(data)));
      socket.addEventListener("close", () => control.close());
    },
  });
  const isOpen = await new Promise<boolean>((settle) => {
    socket.addEventListener("open", () => settle(true));
    socket.addEventListener("close", () => settle(false));
  });
  return isOpen ? stream : null;
}

async function* textOf(stream: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<string> {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
}

/**
 * A pod's log as it comes, piece by piece, until it ends or is aborted. It is followed by a WebSocket: of plain requests
 * a browser has six at a time, for all of its pages together.
 */
export async function* logOf(handle: string, pod: Pod, asked: LogRequest, signal: AbortSignal): AsyncGenerator<string> {
  const query = new URLSearchParams({ tailLines: String(asked.tail), timestamps: "true" });
  if (asked.container !== "") query.set("container", asked.container);
  if (asked.previous) query.set("previous", "true");
  const path = `${podPath(handle, pod, "log")}?${query.toString()}`;
  const followed = asked.follow ? await streamOf(await socketTo(`${path}&follow=true`, "binary.k8s.io"), signal) : null;
  if (followed !== null) {
    yield* textOf(followed);
    return;
  }
  // Why a WebSocket was not let in, its answer does not say; this one does.
  const response = await fetch(path, { headers: CSRF, signal });
  if (!response.ok || response.body === null) throw await refusal(response);
  yield* textOf(response.body);
}

/** A WebSocket into a pod's container (`v5.channel.k8s.io`). */
export async function execIn(handle: string, pod: Pod, container: string, command: readonly string[]): Promise<WebSocket> {
  const query = new URLSearchParams({ container, stdin: "true", stdout: "true", tty: "true" });
  for (const word of command) query.append("command", word);
  return socketTo(`${podPath(handle, pod, "exec")}?${query.toString()}`, "v5.channel.k8s.io");
}
