import { Suspense } from "react";
import { Provider } from "urql";
import { Route, Switch, useLocation } from "wouter";
import { client } from "../api/client";
import { Boundary } from "./Boundary";
import { NotFound } from "./NotFound";
import { PAGES } from "./pages";
import { SessionGate } from "./SessionGate";
import { Shell } from "./Shell";
import { Skeleton } from "../ui/Skeleton";

/** Root of the console: client, session, frame and pages. */
export function App() {
  const [where] = useLocation();
  return (
    <Provider value={client}>
      <SessionGate>
        <Shell>
          <Boundary where={where}>
            <Suspense fallback={<Skeleton lines={12} />}>
              <Switch>
                {PAGES.map(({ path, page }) => (
                  <Route key={path} path={path} component={page} />
                ))}
                <Route component={NotFound} />
              </Switch>
            </Suspense>
          </Boundary>
        </Shell>
      </SessionGate>
    </Provider>
  );
}
