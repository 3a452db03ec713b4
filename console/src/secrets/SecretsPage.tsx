import { Link } from "wouter";
import { SecretsDocument, type SecretRowFragment } from "../api/generated";
import { Age } from "../ui/Age";
import { Empty } from "../ui/Empty";
import { FilterField } from "../ui/FilterField";
import { PagedTable } from "../ui/PagedTable";
import { Status } from "../ui/Status";
import { useParam } from "../ui/useParam";
import { useRowKeys } from "../ui/useRowKeys";
import { stateOf } from "./rotation";
import { storeOf } from "./source";
import { ValueForm } from "./ValueForm";

function Row({ secret }: { readonly secret: SecretRowFragment }) {
  return (
    <tr>
      <td>
        <Link href={`/secrets/${secret.id}`}>{secret.name}</Link>
      </td>
      <td>
        <Status state={stateOf(secret)} pill />
      </td>
      <td className="wide">{secret.problem ?? secret.description}</td>
      <td className="number">{secret.currentVersion}</td>
      <td>{storeOf(secret)}</td>
      <td>{secret.project?.name}</td>
      <td>
        <Age at={secret.updatedAt} />
      </td>
    </tr>
  );
}

/** Table of all secrets, without values. */
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
        titles={["Secret", "State", "Description", "Version", "Stored in", "Project", "Changed"]}
        query={SecretsDocument}
        variables={{ q: q || null }}
        pick={(data) => data.secrets}
        row={(secret) => <Row key={secret.id} secret={secret} />}
        counted={["secret", "secrets"]}
        empty={
          isNew === "" && (
            <Empty title={q === "" ? "No secrets yet" : "No matching secrets"}>
              <p>Towline stores a secret encrypted or reads it from your secret store. Services use it by name, and only their agents can decrypt it. A new version rolls out while the services stay healthy.</p>
            </Empty>
          )
        }
      />
    </div>
  );
}
