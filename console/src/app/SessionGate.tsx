import type { ReactNode } from "react";
import { useQuery } from "urql";
import { MeDocument } from "../api/generated";
import { Skeleton } from "../ui/Skeleton";
import { Login } from "./Login";

/** Lets through who is signed in; others sign in and then see the page that they asked for. */
export function SessionGate({ children }: { readonly children: ReactNode }) {
  const [{ data, error }, again] = useQuery({ query: MeDocument });
  const refused = error?.graphQLErrors.some(({ extensions }) => extensions["code"] === "UNAUTHENTICATED");
  if (refused === true) return <Login onDone={() => again({ requestPolicy: "network-only" })} />;
  if (data === undefined && error === undefined) return <Skeleton lines={6} />;
  return children;
}
