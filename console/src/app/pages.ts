// Every screen and its address. A page is loaded when it is first gone to; the fleet page at once.
import { lazy, type ComponentType } from "react";
import { FleetPage } from "../fleet/FleetPage";

export type Page = {
  readonly path: string;
  readonly page: ComponentType;
  /** In the navigation, with the key that follows `g`. */
  readonly nav?: { readonly title: string; readonly key: string };
};

const ServicesPage = lazy(async () => ({ default: (await import("../services/ServicesPage")).ServicesPage }));
const ServicePage = lazy(async () => ({ default: (await import("../services/ServicePage")).ServicePage }));
const ClustersPage = lazy(async () => ({ default: (await import("../clusters/ClustersPage")).ClustersPage }));
const PipelinesPage = lazy(async () => ({ default: (await import("../pipelines/PipelinesPage")).PipelinesPage }));

export const PAGES: readonly Page[] = [
  { path: "/", page: FleetPage, nav: { title: "Fleet", key: "f" } },
  { path: "/services", page: ServicesPage, nav: { title: "Services", key: "s" } },
  { path: "/services/:id", page: ServicePage },
  { path: "/clusters", page: ClustersPage, nav: { title: "Clusters", key: "c" } },
  { path: "/pipelines", page: PipelinesPage, nav: { title: "Pipelines", key: "p" } },
];
