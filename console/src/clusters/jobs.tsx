import { ClusterJobsDocument, CancelClusterJobDocument, RetryClusterJobDocument, RunClusterJobDocument, type ClusterJobsQuery, type ClusterJobsQueryVariables, type JobRowFragment } from "../api/generated";
import type { Action, Kind, Permission } from "../manage/kind";
import { Facts } from "../manage/Facts";
import { json, number, text } from "../manage/values";
import { exactly } from "../text/time";
import { Age } from "../ui/Age";
import { JOB_STATES } from "../ui/states";
import { Status } from "../ui/Status";

const WRITE: Permission = { verb: "WRITE", kind: "CLUSTER" };

const isRunning = ({ phase }: JobRowFragment): boolean => phase === "PENDING" || phase === "RUNNING";

const EXAMPLE = {
  apiVersion: "batch/v1",
  kind: "Job",
  metadata: { name: "check" },
  spec: { backoffLimit: 0, template: { spec: { restartPolicy: "Never", containers: [{ name: "main", image: "", command: [] }] } } },
};

const run = (clusterId: string): Action<null> => ({
  title: "Run job",
  permission: WRITE,
  consequence: () => "The agent creates the object once and reports its log and its result.",
  fields: [
    { path: "namespace", title: "Namespace", required: true },
    { path: "manifest", title: "Job or Pod", of: "yaml", required: true },
    { path: "timeout", title: "Timeout in seconds", of: "number" },
  ],
  initial: () => ({ manifest: EXAMPLE, namespace: "default" }),
  run: (client, values) => {
    const attributes = { namespace: text(values, "namespace"), manifest: json(values, "manifest") ?? "{}", timeout: number(values, "timeout") };
    return client.mutation(RunClusterJobDocument, { clusterId, attributes }).toPromise();
  },
  done: "Job started",
});

const RETRY: Action<JobRowFragment> = {
  title: "Run again",
  permission: WRITE,
  when: (job) => !isRunning(job),
  consequence: () => "Runs a new job from the same manifest.",
  run: (client, _, { id }) => client.mutation(RetryClusterJobDocument, { id }).toPromise(),
  done: "Job started again",
};

const CANCEL: Action<JobRowFragment> = {
  title: "Cancel job",
  permission: WRITE,
  when: isRunning,
  consequence: () => "The agent deletes the object and its Pods.",
  run: (client, _, { id }) => client.mutation(CancelClusterJobDocument, { id }).toPromise(),
  done: "Job cancelled",
};

/** Jobs of a cluster. */
export const jobsOf = (clusterId: string): Kind<ClusterJobsQuery, ClusterJobsQueryVariables, JobRowFragment> => ({
  title: "Jobs",
  noun: ["job", "jobs"],
  hint: "Run a Job or a Pod once, such as a migration or a check.",
  query: ClusterJobsDocument,
  variables: () => ({ clusterId }),
  unfiltered: true,
  pick: ({ clusterJobs }) => clusterJobs,
  id: ({ id }) => id,
  name: ({ object, namespace }) => (object === null ? namespace : `${object.kind} ${namespace}/${object.name}`),
  columns: [
    ["State", ({ phase }) => <Status state={JOB_STATES[phase]} />],
    ["Message", ({ message }) => message],
    ["Started by", ({ actor }) => actor],
    ["Created", ({ insertedAt }) => <Age at={insertedAt} />],
  ],
  details: ({ logTail, exitCode, startedAt, finishedAt }) => (
    <>
      <Facts
        facts={[
          ["Exit code", exitCode],
          ["Started", startedAt === null ? null : exactly(startedAt)],
          ["Finished", finishedAt === null ? null : exactly(finishedAt)],
        ]}
      />
      <pre className="block" tabIndex={0} aria-label="End of the log">
        {logTail || "No log yet."}
      </pre>
    </>
  ),
  create: [run(clusterId)],
  actions: [RETRY, CANCEL],
  follow: 3_000,
});
