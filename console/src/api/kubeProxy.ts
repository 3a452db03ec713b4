// Client of the Kubernetes proxy: the API of a cluster, with the permissions of the user.
import { CSRF, ticket } from "./client";

export type Pod = { readonly namespace: string; readonly name: string };

/** Path of a Kubernetes API request in a cluster; escapes every part. */
export function proxyPath(handle: string, ...parts: readonly string[]): string {
  return ["/k8s/clusters", handle, ...parts].map((part, index) => (index === 0 ? part : encodeURIComponent(part))).join("/");
}

const podPath = (handle: string, { namespace, name }: Pod, ...more: readonly string[]) =>
  proxyPath(handle, "api", "v1", "namespaces", namespace, "pods", name, ...more);

/** Error of the Kubernetes API, with the status of the response. */
export class KubeError extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

/** Error of a failed request, from its Kubernetes Status. */
async function errorOf(response: Response): Promise<KubeError> {
  const text = await response.text();
  try {
    const { message } = JSON.parse(text) as { readonly message?: unknown };
    if (typeof message === "string") return new KubeError(message, response.status);
  } catch {
    // Not a Status; use the text.
  }
  return new KubeError(text.trim().slice(0, 300) || `the cluster responded with status ${response.status}`, response.status);
}

/** Request to the Kubernetes API; `path` are its parts after the cluster, such as `api`, `v1`, `pods`. */
export type KubeRequest = {
  readonly method: "GET" | "PATCH" | "POST" | "PUT" | "DELETE";
  readonly path: readonly string[];
  readonly body?: unknown;
  readonly query?: Readonly<Record<string, string>>;
};

/** Field manager of the changes that users make here. */
const FIELD_MANAGER = "towline-console";
const MERGE_PATCH = "application/merge-patch+json";

/** Sends a request and returns the answer. A dry run validates and admits the change, but does not store it. */
export async function send(handle: string, { method, path, body, query: given = {} }: KubeRequest, dryRun = false): Promise<unknown> {
  const query = new URLSearchParams(given);
  // The API server ignores the query of a deletion that has options in its body.
  const isInBody = dryRun && method === "DELETE" && body !== undefined;
  const sent = isInBody ? { ...(body as object), dryRun: ["All"] } : body;
  if (dryRun && !isInBody) query.set("dryRun", "All");
  if (method === "PATCH" || method === "POST" || method === "PUT") query.set("fieldManager", FIELD_MANAGER);
  const type = method === "PATCH" ? MERGE_PATCH : "application/json";
  const response = await fetch(`${proxyPath(handle, ...path)}?${query.toString()}`, {
    method,
    headers: { ...CSRF, Accept: "application/json", ...(sent === undefined ? {} : { "Content-Type": type }) },
    ...(sent === undefined ? {} : { body: JSON.stringify(sent) }),
  });
  if (!response.ok) throw await errorOf(response);
  return response.json();
}

type PodSpec = { readonly containers?: readonly { readonly name: string; readonly ports?: readonly { readonly containerPort: number }[] }[] };
export type Container = { readonly name: string; readonly ports: readonly number[] };

/** Containers of a pod in spec order, with their declared ports. */
export async function containersOf(handle: string, pod: Pod): Promise<readonly Container[]> {
  const response = await fetch(podPath(handle, pod), { headers: { ...CSRF, Accept: "application/json" } });
  if (!response.ok) throw await errorOf(response);
  const { spec } = (await response.json()) as { readonly spec?: PodSpec };
  return spec?.containers?.map(({ name, ports }) => ({ name, ports: ports?.map(({ containerPort }) => containerPort) ?? [] })) ?? [];
}

export type LogRequest = { readonly container: string; readonly follow: boolean; readonly tail: number; readonly previous: boolean };

const BEARER = "base64url.bearer.authorization.k8s.io.";

/** Opens a WebSocket through the Kubernetes proxy with a ticket. */
async function socketTo(path: string, protocol: string): Promise<WebSocket> {
  const secret = btoa(await ticket()).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const socket = new WebSocket(`${scheme}://${location.host}${path}`, [protocol, `${BEARER}${secret}`]);
  socket.binaryType = "arraybuffer";
  return socket;
}

/** Data of a WebSocket until it closes or is aborted; null: the server rejected it. */
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
 * Streams a pod's log in pieces until it ends or is aborted. Following uses a WebSocket, because browsers allow only
 * six plain HTTP/1.1 requests per host.
 */
export async function* logOf(handle: string, pod: Pod, options: LogRequest, signal: AbortSignal): AsyncGenerator<string> {
  const query = new URLSearchParams({ tailLines: String(options.tail), timestamps: "true" });
  if (options.container !== "") query.set("container", options.container);
  if (options.previous) query.set("previous", "true");
  const path = `${podPath(handle, pod, "log")}?${query.toString()}`;
  const followed = options.follow ? await streamOf(await socketTo(`${path}&follow=true`, "binary.k8s.io"), signal) : null;
  if (followed !== null) {
    yield* textOf(followed);
    return;
  }
  // A rejected WebSocket has no error text; this plain request has.
  const response = await fetch(path, { headers: CSRF, signal });
  if (!response.ok || response.body === null) throw await errorOf(response);
  yield* textOf(response.body);
}

/** Opens an exec WebSocket to a container (`v5.channel.k8s.io`). */
export async function execIn(handle: string, pod: Pod, container: string, command: readonly string[]): Promise<WebSocket> {
  const query = new URLSearchParams({ container, stdin: "true", stdout: "true", tty: "true" });
  for (const word of command) query.append("command", word);
  return socketTo(`${podPath(handle, pod, "exec")}?${query.toString()}`, "v5.channel.k8s.io");
}
