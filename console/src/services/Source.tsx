import { safeUrl } from "../text/links";
import { Age } from "../ui/Age";
import { Person } from "../ui/Person";
import { commitsBehind } from "../ui/states";
import type { Service } from "./service";

/** Untrusted text; a link only if it is a safe URL. */
function Address({ text }: { readonly text: string }) {
  const url = safeUrl(text);
  return url === null ? (
    <span>{text}</span>
  ) : (
    <a href={url} rel="noreferrer noopener" target="_blank">
      {text}
    </a>
  );
}

/** Source, commit and pin of a service. */
export function Source({ service }: { readonly service: Service }) {
  const { repository, git, follows, revision, sha, pinnedSha } = service;
  return (
    <dl className="facts card">
      <dt>Source</dt>
      <dd>
        {repository === null ? "no repository" : <Address text={repository.url} />} <span className="quiet">at</span> <code>{follows}</code>
        {(git?.folder ?? "") !== "" && (
          <>
            {" "}
            <span className="quiet">in</span> <code>{git?.folder}</code>
          </>
        )}
        {repository?.error != null && <p className="status bad">{repository.error}</p>}
      </dd>
      <dt>Commit</dt>
      <dd>
        <code>{sha?.slice(0, 12) ?? "none yet"}</code> {revision?.subject} {revision !== null && (
          <span className="quiet">
            <Person author={revision.author} /> <Age at={revision.committedAt} />
          </span>
        )}
      </dd>
      {pinnedSha !== null && (
        <>
          <dt>Pinned</dt>
          <dd>
            at <code>{pinnedSha.slice(0, 12)}</code>: {service.promoted ? "only its pipeline changes it" : `new commits are ignored${service.commitsBehind === null ? "" : `; ${commitsBehind(service.commitsBehind)}`}`}
          </dd>
        </>
      )}
      {service.origin !== null && (
        <>
          <dt>Created by</dt>
          <dd>{service.origin}</dd>
        </>
      )}
      {service.metadata.fqdns.length > 0 && (
        <>
          <dt>Hostnames</dt>
          <dd>{service.metadata.fqdns.join(", ")}</dd>
        </>
      )}
    </dl>
  );
}
