// Tabs of a service's page whose scripts are loaded on their first use.
import { loadable } from "../ui/loadable";

export const Overview = loadable(() => import("../overview/Overview"), "Overview");
export const Maintenance = loadable(() => import("../maintenance/Maintenance"), "Maintenance");
export const Topology = loadable(() => import("../topology/Topology"), "Topology");
export const Values = loadable(() => import("../flow/Values"), "Values");
