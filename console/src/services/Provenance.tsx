import { useQuery } from "urql";
import { ProvenanceDocument, type ProvenanceStage, type ProvenanceState } from "../api/generated";
import { Age } from "../ui/Age";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { STATES, type State } from "../ui/states";
import { Status } from "../ui/Status";

const TITLES: Readonly<Record<ProvenanceStage, string>> = {
  SOURCE: "Source",
  SIGNER: "Signer",
  RENDERER: "Renderer",
  BUNDLE: "Bundle",
  IMAGE: "Image",
  APPROVAL: "Decision",
  AGENT: "Agent",
  OBJECT: "Object",
};
const MARKS: Readonly<Record<ProvenanceState, State>> = { VERIFIED: STATES.verified, UNVERIFIED: STATES.notVerified, FAILED: STATES.failed };

/** Chain from the commits of a service to its objects, with the result of each check. */
export function Provenance({ serviceId }: { readonly serviceId: string }) {
  const [{ data, error }] = useQuery({ query: ProvenanceDocument, variables: { id: serviceId }, requestPolicy: "cache-and-network" });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={8} />;
  const links = data.serviceProvenance?.links ?? [];
  return (
    <ol className="provenance" aria-label="Provenance">
      {links.map(({ stage, subject, state, detail, agent }, index) => (
        <li key={index}>
          <Status state={MARKS[state]} /> <strong>{TITLES[stage]}</strong> <code>{subject}</code>
          {detail !== "" && <span className="quiet"> {detail}</span>}
          {agent !== null && (
            <p className="quiet">
              <Status state={MARKS[agent.state]} /> by the agent, <Age at={agent.at} />: {agent.detail}
            </p>
          )}
        </li>
      ))}
    </ol>
  );
}
