import { useQuery } from "urql";
import { ProfileDocument } from "../api/generated";
import { exactly } from "../text/time";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Table } from "../ui/Table";
import { Tabs } from "../ui/Tabs";
import { Fences } from "./Fences";
import { Kubeconfig } from "./Kubeconfig";
import { Requests } from "./Requests";
import { Roles } from "./Roles";
import { Sessions } from "./Sessions";
import { Tokens } from "./Tokens";
import { WhoCan } from "./WhoCan";

function Profile() {
  const [{ data, error }] = useQuery({ query: ProfileDocument });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={6} />;
  return (
    <div className="stack">
      <section className="card">
        <h2>{data.me.name || data.me.email}</h2>
        <p className="quiet">
          {data.me.email}
          {data.myGroups.length > 0 && `, in ${data.myGroups.map(({ name }) => name).join(", ")}`}
        </p>
      </section>
      <Table label="Your roles" titles={["Role", "Scope", "Source", "Expires"]}>
        {data.myAccess.map(({ role, place, why, expiresAt }, index) => (
          <tr key={index}>
            <td>
              <strong>{role}</strong>
            </td>
            <td>{place}</td>
            <td className="wide">{why}</td>
            <td>{expiresAt === null ? "" : exactly(expiresAt)}</td>
          </tr>
        ))}
      </Table>
    </div>
  );
}

/** Profile, access requests, kubeconfig, tokens, sessions and roles. */
export function AccessPage() {
  return (
    <>
      <h1>Access</h1>
      <Tabs
        tabs={[
          { id: "profile", title: "Profile", content: () => <Profile /> },
          { id: "requests", title: "Requests", content: () => <Requests /> },
          { id: "kubeconfig", title: "kubectl", content: () => <Kubeconfig /> },
          { id: "tokens", title: "Tokens", content: () => <Tokens /> },
          { id: "sessions", title: "Sessions", content: () => <Sessions /> },
          { id: "who", title: "Who can", content: () => <WhoCan /> },
          { id: "roles", title: "Roles", content: () => <Roles /> },
          { id: "fences", title: "Fences", content: () => <Fences /> },
        ]}
      />
    </>
  );
}
