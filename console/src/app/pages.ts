// All pages and their URLs. A page is loaded on its first visit; the fleet page immediately.
import {
  Bell,
  Boxes,
  ChartNoAxesColumn,
  FileClock,
  FolderGit2,
  FolderTree,
  GitBranch,
  Globe,
  Inbox,
  KeyRound,
  Layers,
  LayoutGrid,
  Lock,
  Server,
  Settings2,
  Users,
  Variable,
  Workflow,
  type LucideIcon,
} from "lucide-react";
import type { ComponentType } from "react";
import { FleetPage } from "../fleet/FleetPage";
import { loadable, type Loadable } from "../ui/loadable";

export type Group = "operate" | "configure" | "insights" | "administer";

export type Page = {
  readonly path: string;
  readonly page: ComponentType | Loadable<object>;
  /** Entry in the navigation; `key` follows `g`. */
  readonly nav?: { readonly title: string; readonly key: string; readonly group: Group; readonly icon: LucideIcon };
};

const later = <Name extends string>(load: () => Promise<Record<Name, ComponentType>>, name: Name): Loadable<object> => loadable(load, name);

/** Path of the inbox, whose entry in the navigation shows the number of its items. */
export const INBOX = "/inbox";

export const PAGES: readonly Page[] = [
  {
    path: INBOX,
    page: later(() => import("../inbox/InboxPage"), "InboxPage"),
    nav: { title: "Needs you", key: "b", group: "operate", icon: Inbox },
  },
  { path: "/", page: FleetPage, nav: { title: "Fleet", key: "f", group: "operate", icon: LayoutGrid } },
  {
    path: "/services",
    page: later(() => import("../services/ServicesPage"), "ServicesPage"),
    nav: { title: "Services", key: "s", group: "operate", icon: Layers },
  },
  { path: "/services/new", page: later(() => import("../services/NewServicePage"), "NewServicePage") },
  { path: "/services/:id", page: later(() => import("../services/ServicePage"), "ServicePage") },
  { path: "/objects/:id", page: later(() => import("../objects/ObjectPage"), "ObjectPage") },
  {
    path: "/clusters",
    page: later(() => import("../clusters/ClustersPage"), "ClustersPage"),
    nav: { title: "Clusters", key: "c", group: "operate", icon: Server },
  },
  { path: "/clusters/new", page: later(() => import("../clusters/RegisterClusterPage"), "RegisterClusterPage") },
  { path: "/clusters/groups", page: later(() => import("../clusters/ClusterGroupsPage"), "ClusterGroupsPage") },
  { path: "/clusters/sources", page: later(() => import("../clusters/ClusterSourcesPage"), "ClusterSourcesPage") },
  { path: "/clusters/:handle", page: later(() => import("../clusters/ClusterPage"), "ClusterPage") },
  {
    path: "/pipelines",
    page: later(() => import("../pipelines/PipelinesPage"), "PipelinesPage"),
    nav: { title: "Pipelines", key: "p", group: "operate", icon: Workflow },
  },
  { path: "/pipelines/new", page: later(() => import("../pipelines/EditPipelinePage"), "EditPipelinePage") },
  { path: "/pipelines/revisions", page: later(() => import("../pipelines/RevisionsPage"), "RevisionsPage") },
  { path: "/pipelines/:id/edit", page: later(() => import("../pipelines/EditPipelinePage"), "EditPipelinePage") },
  { path: "/pipelines/:id/gates/:gate", page: later(() => import("../pipelines/GatePage"), "GatePage") },
  { path: "/pipelines/:id", page: later(() => import("../pipelines/PipelinePage"), "PipelinePage") },
  {
    path: "/search",
    page: later(() => import("../search/SearchPage"), "SearchPage"),
    nav: { title: "Objects", key: "o", group: "operate", icon: Boxes },
  },
  {
    path: "/repositories",
    page: later(() => import("../repositories/RepositoriesPage"), "RepositoriesPage"),
    nav: { title: "Repositories", key: "r", group: "configure", icon: FolderGit2 },
  },
  { path: "/repositories/artifacts", page: later(() => import("../repositories/ArtifactsPage"), "ArtifactsPage") },
  { path: "/repositories/charts", page: later(() => import("../repositories/ChartsPage"), "ChartsPage") },
  {
    path: "/generators",
    page: later(() => import("../generators/GeneratorsPage"), "GeneratorsPage"),
    nav: { title: "Fleet services", key: "l", group: "configure", icon: Globe },
  },
  {
    path: "/secrets",
    page: later(() => import("../secrets/SecretsPage"), "SecretsPage"),
    nav: { title: "Secrets", key: "e", group: "configure", icon: Lock },
  },
  { path: "/secrets/:id", page: later(() => import("../secrets/SecretPage"), "SecretPage") },
  {
    path: "/contexts",
    page: later(() => import("../contexts/ContextsPage"), "ContextsPage"),
    nav: { title: "Contexts", key: "x", group: "configure", icon: Variable },
  },
  {
    path: "/configuration",
    page: later(() => import("../configuration/ConfigurationSourcesPage"), "ConfigurationSourcesPage"),
    nav: { title: "Configuration sources", key: "g", group: "configure", icon: GitBranch },
  },
  {
    path: "/notifications",
    page: later(() => import("../notifications/NotificationsPage"), "NotificationsPage"),
    nav: { title: "Notifications", key: "n", group: "configure", icon: Bell },
  },
  {
    path: "/reports",
    page: later(() => import("../reports/ReportsPage"), "ReportsPage"),
    nav: { title: "Delivery", key: "d", group: "insights", icon: ChartNoAxesColumn },
  },
  {
    path: "/audit",
    page: later(() => import("../audit/AuditPage"), "AuditPage"),
    nav: { title: "Audit log", key: "a", group: "insights", icon: FileClock },
  },
  { path: "/recordings/:id", page: later(() => import("../audit/ReplayPage"), "ReplayPage") },
  { path: "/views", page: later(() => import("../lists/ViewsPage"), "ViewsPage") },
  { path: "/views/:id", page: later(() => import("../lists/ViewsPage"), "ViewPage") },
  {
    path: "/access",
    page: later(() => import("../access/AccessPage"), "AccessPage"),
    nav: { title: "Access", key: "i", group: "insights", icon: KeyRound },
  },
  {
    path: "/people",
    page: later(() => import("../people/PeoplePage"), "PeoplePage"),
    nav: { title: "Users and groups", key: "u", group: "administer", icon: Users },
  },
  {
    path: "/projects",
    page: later(() => import("../projects/ProjectsPage"), "ProjectsPage"),
    nav: { title: "Projects", key: "t", group: "administer", icon: FolderTree },
  },
  {
    path: "/installation",
    page: later(() => import("../installation/InstallationPage"), "InstallationPage"),
    nav: { title: "Installation", key: "m", group: "administer", icon: Settings2 },
  },
];

/** Whether a path belongs to a page of the navigation. */
export const isAt = (where: string, path: string): boolean => where === path || (path !== "/" && where.startsWith(`${path}/`));

/** Loads the scripts of the page at a path, if they are not there yet. */
export function preload(where: string): void {
  const parts = where.split("/");
  const fits = ({ path }: Page) => path.split("/").length === parts.length && path.split("/").every((part, index) => part.startsWith(":") || part === parts[index]);
  const page = PAGES.find(fits)?.page;
  if (page !== undefined && "preload" in page) void page.preload();
}
