import { Link } from "wouter";
import { SecretsDocument, type SecretRowFragment } from "../api/generated";
import { List, type Column } from "../lists/List";
import { Age } from "../ui/Age";
import { Empty } from "../ui/Empty";
import { QueryField } from "../lists/QueryField";
import { LABEL_CONDITIONS, useListFilter } from "../lists/useListFilter";
import { Status } from "../ui/Status";
import { useParam } from "../ui/useParam";
import { stateOf } from "./rotation";
import { storeOf } from "./source";
import { ValueForm } from "./ValueForm";

const COLUMNS: readonly Column<SecretRowFragment>[] = [
  { id: "secret", title: "Secret", isLong: true, sort: ({ name }) => name, cell: ({ id, name }) => <Link href={`/secrets/${id}`}>{name}</Link> },
  { id: "state", title: "State", sort: (secret) => stateOf(secret).label, cell: (secret) => <Status state={stateOf(secret)} pill /> },
  { id: "description", title: "Description", className: "wide", cell: ({ problem, description }) => problem ?? description },
  { id: "version", title: "Version", className: "number", sort: ({ currentVersion }) => currentVersion, cell: ({ currentVersion }) => currentVersion },
  { id: "store", title: "Stored in", isLong: true, sort: storeOf, cell: storeOf },
  { id: "project", title: "Project", isLong: true, sort: ({ project }) => project?.name, cell: ({ project }) => project?.name },
  { id: "changed", title: "Changed", sort: ({ updatedAt }) => updatedAt, cell: ({ updatedAt }) => <Age at={updatedAt} /> },
];

/** List of all secrets, without values. */
export function SecretsPage() {
  const { filter, problems, isFiltered } = useListFilter();
  const [isNew, setNew] = useParam("new");
  return (
    <div className="stack">
      <div className="bar">
        <h1>Secrets</h1>
        <QueryField label="Filter secrets" conditions={LABEL_CONDITIONS} problems={problems} />
        <span className="fill" />
        <button type="button" className="primary" onClick={() => setNew("1")}>
          New secret
        </button>
      </div>
      {isNew !== "" && <ValueForm secret={null} onDone={() => setNew("")} />}
      <List
        label="Secrets"
        columns={COLUMNS}
        query={SecretsDocument}
        variables={filter}
        pick={(data) => data.secrets}
        id={({ id }) => id}
        name={({ name }) => name}
        counted={["secret", "secrets"]}
        problems={problems}
        empty={
          isNew === "" && (
            <Empty title={isFiltered ? "No matching secrets" : "No secrets yet"}>
              <p>Towline stores a secret encrypted or reads it from your secret store. Services use it by name, and only their agents can decrypt it. A new version rolls out while the services stay healthy.</p>
            </Empty>
          )
        }
      />
    </div>
  );
}
