import { ResourceList } from "../manage/ResourceList";
import { Tabs } from "../ui/Tabs";
import { GROUPS } from "./groups";
import { USERS } from "./users";

/** Users, service accounts with their trust rules, and groups. */
export function PeoplePage() {
  return (
    <>
      <h1>Users and groups</h1>
      <Tabs
        tabs={[
          { id: "users", title: "Users", content: () => <ResourceList key="users" kind={USERS} /> },
          { id: "groups", title: "Groups", content: () => <ResourceList key="groups" kind={GROUPS} /> },
        ]}
      />
    </>
  );
}
