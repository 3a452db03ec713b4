import { useState, type SubmitEvent } from "react";
import { useMutation } from "urql";
import { refresh } from "../api/client";
import { CreateRoleDocument, UpdateRoleDocument, type RoleAttributes, type RoleFullFragment } from "../api/generated";
import { ROLE } from "../api/inputs";
import { conform } from "../text/conform";
import { judged } from "../text/judge";
import { toYaml } from "../text/yaml";
import { Code } from "../ui/Code";
import { textOf } from "../ui/form";
import { FormBar } from "../ui/FormBar";
import { toast } from "../ui/toast";
import { gridOf, has, KINDS, rulesOf, turned, VERBS, type Grid } from "./rights";
import "./rights.css";

const NARROWED = `groups: []      # as members of these groups inside clusters
rules: []       # what passes the door; none: everything
impersonate: [] # for whom they may act, like group:team-*
record: false
recordInput: false
`;

function kubernetesOf({ kubernetes }: RoleFullFragment): string {
  const { groups, rules, impersonate, record, recordInput } = kubernetes;
  return toYaml({ groups, rules: rules.map(({ verbs, groups: of, resources, namespaces, names }) => ({ verbs, groups: of, resources, namespaces, names })), impersonate, record, recordInput });
}

function Rights({ grid, onChange }: { readonly grid: Grid; readonly onChange: (next: Grid) => void }) {
  return (
    <div className="table-frame" tabIndex={0} role="region" aria-label="Rights">
      <table className="table rights">
        <thead>
          <tr>
            <th scope="col">May</th>
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
                  <input type="checkbox" aria-label={`${verb.toLowerCase()} ${kind.toLowerCase()}`} checked={has(grid, verb, kind)} onChange={() => onChange(turned(grid, verb, kind))} />
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

/** A role: its rights here as a grid, those inside clusters as YAML, checked while it is typed. */
export function RoleForm({ role, onDone }: Props) {
  const [grid, setGrid] = useState<Grid>(() => gridOf(role?.rules ?? []));
  const [text, setText] = useState(() => (role === null ? NARROWED : kubernetesOf(role)));
  const [made, create] = useMutation(CreateRoleDocument);
  const [changed, update] = useMutation(UpdateRoleDocument);
  const { value, problem } = judged(text);
  const wrong = [
    ...(grid.size === 0 ? ["tick at least one right"] : []),
    ...(problem === "" ? conform(ROLE, "KubernetesRightsAttributes", value) : [problem]),
  ];
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const attributes = { name: textOf(form, "name"), description: textOf(form, "description"), rules: rulesOf(grid), kubernetes: value } as RoleAttributes;
    const result = role === null ? await create({ attributes }) : await update({ id: role.id, attributes });
    if (result.error !== undefined) return;
    toast(`${attributes.name} is saved; it holds for all who have it.`);
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
          What it is for
          <input name="description" maxLength={1000} defaultValue={role?.description ?? ""} />
        </label>
      </div>
      <Rights grid={grid} onChange={setGrid} />
      <h3>Inside clusters, for who may connect</h3>
      <Code text={text} label="Rights inside clusters, as YAML" onChange={setText} />
      <FormBar action="Save the role" busy={made.fetching || changed.fetching} complaints={wrong} error={made.error ?? changed.error} onCancel={onDone} />
    </form>
  );
}
