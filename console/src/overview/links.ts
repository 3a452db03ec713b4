// Links of a service from the manifests in Git: hostnames of routes, and annotations with addresses.
import { safeUrl } from "../text/links";

export type ServiceLink = { readonly title: string; readonly url: string };

const MAX_LINKS = 20;

type Manifest = {
  readonly kind?: string;
  readonly metadata?: { readonly name?: string; readonly annotations?: Readonly<Record<string, unknown>> };
  readonly spec?: {
    readonly rules?: readonly { readonly host?: string }[];
    readonly tls?: readonly { readonly hosts?: readonly string[] }[];
    readonly hostnames?: readonly string[];
    readonly host?: string;
  };
};

function hostsOf({ kind, spec }: Manifest): readonly ServiceLink[] {
  const secure = new Set(spec?.tls?.flatMap(({ hosts = [] }) => hosts));
  const hosts = kind === "Ingress" ? (spec?.rules?.map(({ host }) => host) ?? []) : kind === "HTTPRoute" ? (spec?.hostnames ?? []) : kind === "Route" ? [spec?.host] : [];
  return hosts.flatMap((host) => (typeof host === "string" && host !== "" && !host.includes("*") ? [{ title: host, url: `${kind !== "Ingress" || secure.has(host) ? "https" : "http"}://${host}/` }] : []));
}

/** Title of an annotation: the text before `|`, or the last part of its name. */
function annotationLinks({ metadata }: Manifest): readonly ServiceLink[] {
  return Object.entries(metadata?.annotations ?? {}).flatMap(([name, value]) => {
    if (typeof value !== "string") return [];
    const at = value.indexOf("|");
    const url = at === -1 ? value : value.slice(at + 1);
    return /^https?:\/\//i.test(url) ? [{ title: at > 0 ? value.slice(0, at) : (name.split("/").at(-1) ?? name), url }] : [];
  });
}

/** Links of the manifests of a service; only HTTP addresses. */
export function linksOf(objects: readonly unknown[]): readonly ServiceLink[] {
  const found = new Map<string, ServiceLink>();
  for (const object of objects as readonly Manifest[])
    for (const { title, url } of [...hostsOf(object), ...annotationLinks(object)]) {
      const safe = safeUrl(url);
      if (safe !== null && !found.has(safe)) found.set(safe, { title, url: safe });
    }
  return [...found.values()].slice(0, MAX_LINKS);
}
