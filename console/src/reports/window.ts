/** Time range and filters of the delivery page. */
export type ReportWindow = { readonly since: string; readonly until: string; readonly projectId: string | null; readonly clusterId: string | null; readonly labels: string | null };
