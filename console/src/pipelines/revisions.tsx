import { AllowRevisionDocument, DeniedRevisionsDocument, DenyRevisionDocument, type DeniedRevisionsQuery, type DeniedRevisionsQueryVariables } from "../api/generated";
import { onePage, type Action, type Kind, type Permission } from "../manage/kind";
import { text } from "../manage/values";
import { Age } from "../ui/Age";

type Denied = DeniedRevisionsQuery["deniedRevisions"][number];

const APPROVE: Permission = { verb: "APPROVE", kind: "PIPELINE", everywhere: true };

const DENY: Action<null> = {
  title: "Deny revision",
  permission: APPROVE,
  consequence: () => "No pipeline and no service applies this commit or digest any more. Services that run it keep running it.",
  fields: [
    { path: "revision", title: "Commit or digest", required: true },
    { path: "reason", title: "Reason", required: true },
  ],
  command: (values) => ["pipelines", "deny", text(values, "revision"), "--reason", text(values, "reason")],
  run: (client, values) => client.mutation(DenyRevisionDocument, { revision: text(values, "revision"), reason: text(values, "reason") }).toPromise(),
  done: "Revision denied",
};

const ALLOW: Action<Denied> = {
  title: "Allow revision",
  permission: APPROVE,
  consequence: ({ reason, actor }) => `Pipelines and services may apply the revision again. ${actor} denied it: ${reason}`,
  command: (_, { revision, projectId }) => ["pipelines", "allow", revision, ...(projectId ? ["--project", projectId] : [])],
  run: (client, _, { revision, projectId }) => client.mutation(AllowRevisionDocument, { revision, projectId }).toPromise(),
  done: "Revision allowed",
};

export const DENIED_REVISIONS: Kind<DeniedRevisionsQuery, DeniedRevisionsQueryVariables, Denied> = {
  title: "Denied revisions",
  noun: ["denied revision", "denied revisions"],
  hint: "Deny a commit or a digest, such as one with a known vulnerability, to keep it out of all clusters.",
  query: DeniedRevisionsDocument,
  variables: () => ({}),
  unfiltered: true,
  pick: ({ deniedRevisions }) => onePage(deniedRevisions),
  id: ({ id }) => id,
  name: ({ revision }) => revision,
  columns: [
    ["Reason", ({ reason }) => reason],
    ["Projects", ({ projectId }) => projectId ?? "all"],
    ["Denied by", ({ actor }) => actor],
    ["Since", ({ insertedAt }) => <Age at={insertedAt} />],
  ],
  create: [DENY],
  actions: [ALLOW],
};
