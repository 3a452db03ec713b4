import { useQuery } from "urql";
import { RolesDocument } from "../api/generated";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Table } from "../ui/Table";

const words = (names: readonly string[]): string => (names.length === 0 ? "everything" : names.map((name) => name.toLowerCase()).join(", "));

/** What each role lets its holders do, here and inside clusters. */
export function Roles() {
  const [{ data, error }] = useQuery({ query: RolesDocument });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={4} />;
  return (
    <Table label="Roles" titles={["Role", "May", "In clusters"]}>
      {data.roles.map(({ id, name, description, builtIn, rules, kubernetes }) => (
        <tr key={id}>
          <td>
            <strong>{name}</strong> <span className="quiet">{builtIn ? "built in" : description}</span>
          </td>
          <td className="wide">
            {rules.map(({ verbs, kinds }, index) => (
              <div key={index}>
                {words(verbs)} <span className="quiet">of {words(kinds)}</span>
              </div>
            ))}
          </td>
          <td>
            {kubernetes.groups.join(", ")} {kubernetes.record && <span className="status warn">recorded</span>}
          </td>
        </tr>
      ))}
    </Table>
  );
}
