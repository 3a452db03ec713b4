import { useEffect, useRef, useState } from "react";
import { containersOf, type Container, type Pod } from "../api/kubeProxy";
import "./shell.css";

type Props = { readonly handle: string; readonly pod: Pod };

/** Terminal in a pod through the Kubernetes proxy; opens only on request. */
export function Shell({ handle, pod }: Props) {
  const [containers, setContainers] = useState<readonly Container[]>([]);
  const [container, choose] = useState("");
  const [session, setSession] = useState(0);
  const [problem, setProblem] = useState("");
  const { namespace, name } = pod;
  useEffect(() => {
    containersOf(handle, { namespace, name }).then(setContainers, (error: unknown) => setProblem(error instanceof Error ? error.message : String(error)));
  }, [handle, namespace, name]);
  const chosen = container || (containers[0]?.name ?? "");
  const port = containers.flatMap(({ ports }) => ports)[0] ?? 80;
  return (
    <div className="stack">
      <div className="bar">
        <label>
          Container{" "}
          <select value={chosen} onChange={(event) => choose(event.target.value)}>
            {containers.map(({ name: option }) => (
              <option key={option}>{option}</option>
            ))}
          </select>
        </label>
        <button type="button" className="primary" disabled={chosen === ""} onClick={() => setSession(session + 1)}>
          {session === 0 ? "Open shell" : "Reopen shell"}
        </button>
        <span className="quiet">The shell uses your own permissions. The audit log lists it, and some roles record it.</span>
      </div>
      {problem !== "" && <p className="status bad">{problem}</p>}
      {session > 0 && <Screen key={session} handle={handle} pod={pod} container={chosen} />}
      <p className="quiet">
        Port forwarding:{" "}
        <code>
          kubectl --context towline-{handle} -n {namespace} port-forward {name} {port < 1024 ? port + 8000 : port}:{port}
        </code>
      </p>
    </div>
  );
}

function Screen({ handle, pod, container }: Props & { readonly container: string }) {
  const host = useRef<HTMLDivElement>(null);
  const { namespace, name } = pod;
  useEffect(() => {
    let cancelled = false;
    let end = () => {};
    void import("../terminal/session").then(({ openShell }) => {
      if (cancelled || host.current === null) return;
      end = openShell(host.current, handle, { namespace, name }, container);
    });
    return () => {
      cancelled = true;
      end();
    };
  }, [handle, namespace, name, container]);
  return <div ref={host} className="screen" />;
}
