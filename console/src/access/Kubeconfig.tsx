import { useState } from "react";
import { useHandles } from "../clusters/handles";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { kubeconfig } from "./kubeconfigs";

/** The way to every cluster with kubectl: a file without a secret in it. */
export function Kubeconfig() {
  const { handles, error } = useHandles();
  const [chosen, choose] = useState("");
  if (error !== undefined) return <Problem error={error} />;
  if (handles === undefined) return <Skeleton lines={4} />;
  const text = kubeconfig(location.origin, chosen === "" ? handles : [chosen]);
  const download = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/yaml" }));
    link.download = "towline.kubeconfig";
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <div className="stack">
      <div className="bar">
        <label>
          Cluster{" "}
          <select value={chosen} onChange={(event) => choose(event.target.value)}>
            <option value="">all {handles.length}</option>
            {handles.map((handle) => (
              <option key={handle}>{handle}</option>
            ))}
          </select>
        </label>
        <button type="button" className="primary" onClick={download}>
          Download the kubeconfig
        </button>
      </div>
      <p className="quiet">
        It has no secret in it: kubectl asks <code>towline-kubectl-login</code>, which is part of the command line, after <code>towline login {location.origin}</code>.
      </p>
      {location.protocol === "http:" && <p className="status warn">This page is read without TLS. kubectl sends a token only to https: open this page by its HTTPS address and download there.</p>}
      <pre className="block" tabIndex={0}>
        {text}
      </pre>
    </div>
  );
}
