import { useEffect, type ReactNode } from "react";
import { useQuery } from "urql";
import { refresh } from "../api/client";
import { MeDocument } from "../api/generated";
import { signedIn, useSession, wasSignedIn } from "../api/session";
import { Skeleton } from "../ui/Skeleton";
import { Login, LoginAgain } from "./Login";

/** Shows the page to signed-in users. If a session expires, the sign-in dialog opens over the page. */
export function SessionGate({ children }: { readonly children: ReactNode }) {
  const session = useSession();
  const [{ data, error }, refetch] = useQuery({ query: MeDocument });
  const known = data != null;
  useEffect(() => {
    if (known && error === undefined) signedIn();
  }, [known, error]);
  const done = () => {
    signedIn();
    refetch({ requestPolicy: "network-only" });
    refresh();
  };
  if (session === "out") return <Login onDone={done} />;
  if (!known && error === undefined && !wasSignedIn()) return <Skeleton lines={6} />;
  return (
    <>
      {children}
      {session === "expired" && <LoginAgain onDone={done} />}
    </>
  );
}
