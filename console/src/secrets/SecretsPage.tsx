import { Link } from "wouter";
import { SecretsDocument, type SecretRowFragment } from "../api/generated";
import { Age } from "../ui/Age";
import { Empty } from "../ui/Empty";
import { FilterField } from "../ui/FilterField";
import { PagedTable } from "../ui/PagedTable";
import { Status } from "../ui/Status";
import { useParam } from "../ui/useParam";
import { useRowKeys } from "../ui/useRowKeys";
import { keptIn, stateOf } from "./rotation";
import { ValueForm } from "./ValueForm";

function Row({ secret }: { readonly secret: SecretRowFragment }) {
  const [tone, word] = stateOf(secret);
  return (
    <tr>
      <td>
        <Link href={`/secrets/${secret.id}`}>{secret.name}</Link>
      </td>
      <td>
        <Status tone={tone} pill>
          {word}
        </Status>
      </td>
      <td className="wide">{secret.problem ?? secret.description}</td>
      <td className="number">{secret.currentVersion}</td>
      <td>{keptIn(secret)}</td>
      <td>{secret.project?.name}</td>
      <td>
        <Age at={secret.updatedAt} />
      </td>
    </tr>
  );
}

/** Secrets by name: what is known of them, and never a value. */
export function SecretsPage() {
  const [q] = useParam("q");
  const [isNew, setNew] = useParam("new");
  useRowKeys();
  return (
    <div className="stack">
      <div className="bar">
        <h1>Secrets</h1>
        <FilterField label="Filter secrets" />
        <span className="fill" />
        <button type="button" className="primary" onClick={() => setNew("1")}>
          New secret
        </button>
      </div>
      {isNew !== "" && <ValueForm secret={null} onDone={() => setNew("")} />}
      <PagedTable
        label="Secrets"
        titles={["Secret", "State", "What for", "Version", "Kept", "Project", "Changed"]}
        query={SecretsDocument}
        variables={{ q: q || null }}
        pick={(data) => data.secrets}
        row={(secret) => <Row key={secret.id} secret={secret} />}
        counted={["secret", "secrets"]}
        empty={
          isNew === "" && (
            <Empty title={q === "" ? "No secrets yet" : "No secret is like that"}>
              <p>A secret is sealed here or read from where you keep it. Services use it by name; only their agents open it, and a new version is rolled out while they stay healthy.</p>
            </Empty>
          )
        }
      />
    </div>
  );
}
