import type { ComponentType } from "react";
import { useQuery } from "urql";
import { ServiceEventsDocument, type ServiceEventsQuery } from "../api/generated";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";

type Props = {
  readonly serviceId: string;
  readonly render: ComponentType<{ readonly events: ServiceEventsQuery["serviceEvents"] }>;
};

/** Kubernetes Events of a service's objects. */
export function ServiceEvents({ serviceId, render: Render }: Props) {
  const [{ data, error }, refetch] = useQuery({ query: ServiceEventsDocument, variables: { id: serviceId } });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={6} />;
  return (
    <>
      <div className="bar">
        <button type="button" onClick={() => refetch({ requestPolicy: "network-only" })}>
          Refresh
        </button>
      </div>
      <Render events={data.serviceEvents} />
    </>
  );
}
