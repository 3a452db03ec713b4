import { useState, type SubmitEvent } from "react";
import { useMutation } from "urql";
import { refresh } from "../api/client";
import { CreateRoleDocument, UpdateRoleDocument, type RoleAttributes, type RoleFullFragment } from "../api/generated";
import { ROLE } from "../api/inputs";
import { validateInput } from "../text/validate";
import { parseMapping } from "../text/parseMapping";
import { toYaml } from "../text/yaml";
import { Code } from "../ui/Code";
import { textOf } from "../ui/form";
import { FormBar } from "../ui/FormBar";
import { toast } from "../ui/toast";
import { gridOf, has, KINDS, rulesOf, toggled, VERBS, type Grid } from "./permissions";
import "./permissions.css";

const DEFAULT_KUBERNETES = `groups: []      # Kubernetes groups of the user inside clusters
rules: []       # requests that the Kubernetes proxy allows; empty: all
impersonate: [] # subjects that the user may impersonate, such as group:team-*
record: false
recordInput: false
`;

function kubernetesOf({ kubernetes }: RoleFullFragment): string {
  const { groups, rules, impersonate, record, recordInput } = kubernetes;
  return toYaml({ groups, rules: rules.map(({ verbs, groups: of, resources, namespaces, names }) => ({ verbs, groups: of, resources, namespaces, names })), impersonate, record, recordInput });
}

function Permissions({ grid, onChange }: { readonly grid: Grid; readonly onChange: (next: Grid) => void }) {
  return (
    <div className="table-frame" tabIndex={0} role="region" aria-label="Permissions">
      <table className="table permissions">
        <thead>
          <tr>
            <th scope="col">Resource</th>
            {VERBS.map((verb) => (
              <th key={verb} scope="col">
                {verb.toLowerCase()}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {KINDS.map((kind) => (
            <tr key={kind}>
              <th scope="row">{kind.toLowerCase()}</th>
              {VERBS.map((verb) => (
                <td key={verb}>
                  <input type="checkbox" aria-label={`${verb.toLowerCase()} ${kind.toLowerCase()}`} checked={has(grid, verb, kind)} onChange={() => onChange(toggled(grid, verb, kind))} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

type Props = { readonly role: RoleFullFragment | null; readonly onDone: () => void };

/** Form of a role: Towline permissions as a grid, Kubernetes permissions as YAML. */
export function RoleForm({ role, onDone }: Props) {
  const [grid, setGrid] = useState<Grid>(() => gridOf(role?.rules ?? []));
  const [text, setText] = useState(() => (role === null ? DEFAULT_KUBERNETES : kubernetesOf(role)));
  const [created, create] = useMutation(CreateRoleDocument);
  const [changed, update] = useMutation(UpdateRoleDocument);
  const { value, problem } = parseMapping(text);
  const wrong = [
    ...(grid.size === 0 ? ["select at least one permission"] : []),
    ...(problem === "" ? validateInput(ROLE, "KubernetesRightsAttributes", value) : [problem]),
  ];
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const attributes = { name: textOf(form, "name"), description: textOf(form, "description"), rules: rulesOf(grid), kubernetes: value } as RoleAttributes;
    const result = role === null ? await create({ attributes }) : await update({ id: role.id, attributes });
    if (result.error !== undefined) return;
    toast(`Role ${attributes.name} saved`);
    refresh();
    onDone();
  };
  return (
    <form className="card stack" onSubmit={(event) => void submit(event)}>
      <h2>{role === null ? "New role" : role.name}</h2>
      <div className="two">
        <label>
          Name
          <input name="name" required maxLength={255} defaultValue={role?.name} autoFocus={role === null} />
        </label>
        <label>
          Description
          <input name="description" maxLength={1000} defaultValue={role?.description ?? ""} />
        </label>
      </div>
      <Permissions grid={grid} onChange={setGrid} />
      <h3>Kubernetes permissions of users who may connect</h3>
      <Code text={text} label="Kubernetes permissions as YAML" onChange={setText} />
      <FormBar action="Save role" busy={created.fetching || changed.fetching} complaints={wrong} error={created.error ?? changed.error} onCancel={onDone} />
    </form>
  );
}
