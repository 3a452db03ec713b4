import { useEffect, useRef, useState } from "react";
import { containersOf, type Container, type Pod } from "../api/door";
import "./shell.css";

type Props = { readonly handle: string; readonly pod: Pod };

/** A terminal in a pod, through the door. It opens when asked to: a shell is never an accident. */
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
            {containers.map((one) => (
              <option key={one.name}>{one.name}</option>
            ))}
          </select>
        </label>
        <button type="button" className="primary" disabled={chosen === ""} onClick={() => setSession(session + 1)}>
          {session === 0 ? "Open a shell" : "Open it again"}
        </button>
        <span className="quiet">You act as yourself; the audit trail has it, and a role may ask that it is recorded.</span>
      </div>
      {problem !== "" && <p className="status bad">{problem}</p>}
      {session > 0 && <Screen key={session} handle={handle} pod={pod} container={chosen} />}
      <p className="quiet">
        A port of it on your machine:{" "}
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
    let gone = false;
    let end = () => {};
    void import("../terminal/session").then(({ openShell }) => {
      if (gone || host.current === null) return;
      end = openShell(host.current, handle, { namespace, name }, container);
    });
    return () => {
      gone = true;
      end();
    };
  }, [handle, namespace, name, container]);
  return <div ref={host} className="screen" />;
}
