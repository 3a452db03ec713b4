import { useQuery } from "urql";
import {
  CreateServiceAccountDocument,
  CreateServiceAccountTokenDocument,
  CreateTrustRuleDocument,
  DeleteTrustRuleDocument,
  DisableUserDocument,
  TrustRulesDocument,
  UpdateServiceAccountDocument,
  UpdateTrustRuleDocument,
  UpdateUserDocument,
  UpsertUserDocument,
  UsersDocument,
  type TrustRulesQuery,
  type UserRowFragment,
  type UsersQuery,
  type UsersQueryVariables,
} from "../api/generated";
import { Actions } from "../manage/Actions";
import { AsYaml } from "../manage/AsYaml";
import type { Action, FormField, Kind, Permission, Values } from "../manage/kind";
import { number, option, optional, options, pairs, pairWords, text } from "../manage/values";
import { Age } from "../ui/Age";
import { Clip } from "../ui/Clip";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";

type User = UserRowFragment;
type TrustRule = TrustRulesQuery["trustRules"][number];

const ADMINISTER: Permission = { verb: "ADMINISTER", kind: "USER", everywhere: true };
const ROLES = ["NONE", "VIEWER", "EDITOR", "ADMIN"] as const;

const isAccount = ({ kind }: User): boolean => kind === "SERVICE_ACCOUNT";

function roleOf(values: Values) {
  const role = ROLES.find((known) => known === text(values, "role"));
  return role === undefined || role === "NONE" ? null : role;
}


const CREATE_USER: Action<null> = {
  title: "Create user",
  permission: ADMINISTER,
  consequence: () => "The user signs in through the identity provider with this e-mail address. Without a role, the user has no permissions until a role is bound.",
  fields: [
    { path: "email", title: "E-mail", required: true },
    { path: "name", title: "Name" },
    { path: "role", title: "Role for the whole installation", of: ROLES },
  ],
  command: (values) => ["users", "set", text(values, "email"), ...option("--name", text(values, "name")), ...option("--role", roleOf(values)?.toLowerCase() ?? null)],
  run: (client, values) => client.mutation(UpsertUserDocument, { attributes: { email: text(values, "email"), name: optional(values, "name"), role: roleOf(values) } }).toPromise(),
  done: "User created",
};

const CREATE_ACCOUNT: Action<null> = {
  title: "Create service account",
  permission: ADMINISTER,
  consequence: () => "A service account authenticates with tokens only. It has no permissions until a role is bound to it.",
  fields: [{ path: "name", title: "Name", required: true }],
  command: (values) => ["users", "create-service-account", text(values, "name")],
  run: (client, values) => client.mutation(CreateServiceAccountDocument, { attributes: { name: text(values, "name") } }).toPromise(),
  done: "Service account created",
};

const EDIT_USER: Action<User> = {
  title: "Edit user",
  permission: ADMINISTER,
  when: (user) => !isAccount(user),
  fields: [
    { path: "email", title: "E-mail", required: true },
    { path: "name", title: "Name", required: true },
  ],
  initial: ({ email, name }) => ({ email, name }),
  command: (values, { email }) => (text(values, "email") === email ? ["users", "set", email, ...option("--name", text(values, "name"))] : []),
  run: (client, values, { id }) => client.mutation(UpdateUserDocument, { id, attributes: { email: text(values, "email"), name: text(values, "name") } }).toPromise(),
  done: "User updated",
};

const EDIT_ACCOUNT: Action<User> = {
  title: "Rename service account",
  permission: ADMINISTER,
  when: isAccount,
  fields: [{ path: "name", title: "Name", required: true }],
  initial: ({ name }) => ({ name }),
  run: (client, values, { id }) => client.mutation(UpdateServiceAccountDocument, { id, attributes: { name: text(values, "name") } }).toPromise(),
  done: "Service account updated",
};

const disable = (disabled: boolean): Action<User> => ({
  title: disabled ? "Disable user" : "Enable user",
  permission: ADMINISTER,
  when: ({ disabledAt }) => (disabledAt === null) === disabled,
  consequence: ({ email }) => (disabled ? `Ends all sessions, tokens and open requests of ${email} at once. The roles stay, and you can enable the user again.` : `${email} can sign in again, with the same roles.`),
  command: (_, { email }) => ["users", "disable", email, ...(disabled ? [] : ["--enable"])],
  run: (client, _, { id }) => client.mutation(DisableUserDocument, { id, disabled }).toPromise(),
  done: disabled ? "User disabled" : "User enabled",
});

const CREATE_TOKEN: Action<User> = {
  title: "Create token",
  permission: ADMINISTER,
  when: isAccount,
  fields: [
    { path: "name", title: "Name", required: true },
    { path: "days", title: "Expires in days", of: "number" },
  ],
  initial: () => ({ days: 90 }),
  run: async (client, values, { id }) => {
    const { data, error } = await client.mutation(CreateServiceAccountTokenDocument, { id, attributes: { name: text(values, "name"), expiresInDays: number(values, "days") } }).toPromise();
    const token = data?.createServiceAccountToken.token;
    return { error, secret: token == null ? null : { title: "New token", text: token } };
  },
  done: "Token created",
};

const RULE_FIELDS: readonly FormField[] = [
  { path: "issuer", title: "Issuer", note: "https URL", required: true },
  { path: "audience", title: "Audience", required: true },
  { path: "subject", title: "Subject", note: "such as repo:acme/shop:*", required: true },
  { path: "claims", title: "Required claims", note: "name=pattern, separated by spaces", of: "list" },
  { path: "minutes", title: "Lifetime of the issued tokens in minutes", of: "number" },
  { path: "keys", title: "JWKS", note: "for an issuer that the control plane cannot reach", of: "long" },
];

const ruleAttributes = (values: Values) => ({
  issuer: text(values, "issuer"),
  audience: text(values, "audience"),
  subject: text(values, "subject"),
  claims: pairs(values, "claims"),
  minutes: number(values, "minutes"),
  keys: optional(values, "keys"),
});

const TRUST: Action<User> = {
  title: "Add trust rule",
  permission: ADMINISTER,
  when: isAccount,
  consequence: ({ email }) => `Programs with a matching token of the issuer act as ${email}, without a stored secret. An asterisk in the subject matches any text.`,
  fields: [{ path: "name", title: "Name", note: "unique", required: true }, ...RULE_FIELDS],
  initial: () => ({ minutes: 60 }),
  command: (values, { email }) => [
    ...["users", "trust", email, ...option("--name", text(values, "name")), ...option("--issuer", text(values, "issuer")), ...option("--audience", text(values, "audience"))],
    ...[...option("--subject", text(values, "subject")), ...options("--claim", pairWords(pairs(values, "claims"))), ...option("--minutes", number(values, "minutes"))],
    ...(optional(values, "keys") === null ? [] : ["--keys", "jwks.json"]),
  ],
  run: (client, values, { id }) => client.mutation(CreateTrustRuleDocument, { attributes: { name: text(values, "name"), serviceAccountId: id, ...ruleAttributes(values) } }).toPromise(),
  done: "Trust rule added",
};

const EDIT_RULE: Action<TrustRule> = {
  title: "Edit trust rule",
  permission: ADMINISTER,
  consequence: () => "Issued tokens stay valid until they expire. Without a new JWKS, the present one stays.",
  fields: RULE_FIELDS,
  initial: ({ issuer, audience, subject, claims, minutes }) => ({ issuer, audience, subject, claims: pairWords(claims), minutes }),
  run: (client, values, { id }) => client.mutation(UpdateTrustRuleDocument, { id, attributes: ruleAttributes(values) }).toPromise(),
  done: "Trust rule updated",
};

const DELETE_RULE: Action<TrustRule> = {
  title: "Delete trust rule",
  permission: ADMINISTER,
  consequence: ({ subject }) => `Programs with the subject ${subject} cannot get new tokens. Issued tokens stay valid until they expire.`,
  run: (client, _, { id }) => client.mutation(DeleteTrustRuleDocument, { id }).toPromise(),
  done: "Trust rule deleted",
};

export const TRUST_RULE_ACTIONS = [EDIT_RULE, DELETE_RULE];

function TrustRules({ userId }: { readonly userId: string }) {
  const [{ data, error }] = useQuery({ query: TrustRulesDocument });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={2} />;
  const rules = data.trustRules.filter((rule) => rule.serviceAccountId === userId);
  if (rules.length === 0) return <p className="quiet">No trust rules: only tokens authenticate as this account.</p>;
  return (
    <Table label="Trust rules" titles={["Name", "Issuer", "Audience", "Subject", "Claims", "Lifetime", ""]}>
      {rules.map((rule) => (
        <tr key={rule.id}>
          <td>
            <Clip>{rule.name}</Clip>
          </td>
          <td className="wide">{rule.issuer}</td>
          <td>
            <Clip>{rule.audience}</Clip>
          </td>
          <td className="wide">
            <code>{rule.subject}</code>
          </td>
          <td className="wide">{pairWords(rule.claims).join(", ")}</td>
          <td>{rule.minutes} min</td>
          <td>
            <Actions actions={TRUST_RULE_ACTIONS} node={rule} /> <AsYaml kind="TrustedIssuer" name={rule.name} />
          </td>
        </tr>
      ))}
    </Table>
  );
}

export const USERS: Kind<UsersQuery, UsersQueryVariables, User> = {
  title: "Users",
  noun: ["user", "users"],
  hint: "Users sign in through the identity provider. Service accounts are for programs.",
  query: UsersDocument,
  variables: (filter) => filter,
  pick: ({ users }) => users,
  id: ({ id }) => id,
  name: ({ email }) => email,
  declared: (user) => (isAccount(user) ? { kind: "ServiceAccount", name: user.email } : { kind: "User", name: user.email }),
  columns: [
    ["Name", ({ name }) => name],
    ["Type", (user) => (isAccount(user) ? "service account" : "person")],
    ["Role", ({ role }) => role?.toLowerCase() ?? ""],
    ["State", ({ disabledAt }) => (disabledAt === null ? <Status state={STATES.active} /> : <><Status state={STATES.disabled} /> <Age at={disabledAt} /></>)],
  ],
  details: (user) => (isAccount(user) ? <TrustRules userId={user.id} /> : null),
  create: [CREATE_USER, CREATE_ACCOUNT],
  actions: [EDIT_USER, EDIT_ACCOUNT, CREATE_TOKEN, TRUST, disable(true), disable(false)],
};
