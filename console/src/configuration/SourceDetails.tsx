import { useQuery } from "urql";
import { ConfigurationSourcePlanDocument, type ConfigurationSourcePlanQuery, type SourceRowFragment } from "../api/generated";
import { Facts } from "../manage/Facts";
import { Age } from "../ui/Age";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";

type Planned = NonNullable<ConfigurationSourcePlanQuery["configurationSource"]>;

const DONE = { CREATE: "create", UPDATE: "change", DELETE: "delete", UNCHANGED: "keep" };

const place = (file: string, line: number): string => (file === "" ? "" : `${file}:${String(line)}`);

function Problems({ problems }: { readonly problems: Planned["problems"] }) {
  if (problems.length === 0) return null;
  return (
    <section aria-label="Problems">
      <h3>Problems</h3>
      <div className="scroll">
        <table>
          <thead>
            <tr>
              {["File", "Resource", "Problem"].map((title) => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {problems.map(({ file, line, document, message }) => (
              <tr key={`${place(file, line)} ${document} ${message}`}>
                <td>
                  <code>{place(file, line)}</code>
                </td>
                <td className="wide">{document}</td>
                <td className="wide">{message}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Changes({ item }: { readonly item: Planned["plan"][number] }) {
  const owner = (path: string): string => item.conflicts.find((conflict) => conflict.path === path)?.owner ?? "";
  return (
    <ul>
      {item.changes.map(({ path, before, after }) => (
        <li key={path}>
          <code>{path}</code>: <code>{before ?? "none"}</code> → <code>{after ?? "none"}</code>
          {owner(path) !== "" && <small> set by {owner(path)}</small>}
        </li>
      ))}
    </ul>
  );
}

function Plan({ source }: { readonly source: Planned }) {
  if (source.plan.length === 0) return null;
  const hidden = source.planSize - source.plan.length;
  const title = source.result === "OUT_OF_SYNC" ? "Drift" : "Plan";
  return (
    <section aria-label={title}>
      <h3>{title}</h3>
      <div className="scroll">
        <table>
          <thead>
            <tr>
              {["Action", "Resource", "Fields", "File"].map((name) => (
                <th key={name} scope="col">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {source.plan.map((item) => (
              <tr key={`${item.kind} ${item.name}`}>
                <td>{DONE[item.action]}</td>
                <td className="wide">
                  {item.kind} {item.name}
                </td>
                <td className="wide">
                  <Changes item={item} />
                </td>
                <td>
                  <code>{place(item.file, item.line)}</code>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {hidden > 0 && <p className="quiet">and {hidden} more</p>}
    </section>
  );
}

/** Mounted anew after each reconciliation, which changes the plan. */
function ProblemsAndPlan({ id }: { readonly id: string }) {
  const [{ data, error }] = useQuery({ query: ConfigurationSourcePlanDocument, variables: { id }, requestPolicy: "cache-and-network" });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data?.configurationSource == null) return <Skeleton lines={3} />;
  return (
    <>
      <Problems problems={data.configurationSource.problems} />
      <Plan source={data.configurationSource} />
    </>
  );
}

/** Settings, commits, problems and plan of a source. */
export function SourceDetails({ source }: { readonly source: SourceRowFragment }) {
  return (
    <>
      {source.message !== null && <p>{source.message}</p>}
      <Facts
        facts={[
          ["Repository", source.repositoryUrl],
          ["Service account", source.serviceAccount],
          ["Project", source.project?.name],
          ["New commits", source.mode === "AUTOMATIC" ? "applied at once" : "applied after an approval"],
          ["Prune", source.prune ? `at most ${String(source.deletionBudget)} deletions per apply` : "no"],
          ["Drift", source.drift.toLowerCase()],
          ["Checked", source.checkedAt === null ? null : <Age at={source.checkedAt} />],
          ["Last change", source.appliedAt === null ? null : <Age at={source.appliedAt} />],
          ["Commit seen", source.seenSha === null ? null : <code>{source.seenSha}</code>],
          ["Commit applied", source.appliedSha === null ? null : <code>{source.appliedSha}</code>],
          ["Approved by", source.approvedBy],
        ]}
      />
      <ProblemsAndPlan key={source.checkedAt} id={source.id} />
    </>
  );
}
