import { useState } from "react";
import { useQuery } from "urql";
import { ClusterDomainDocument } from "../api/generated";
import { useHandles } from "../clusters/handles";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { kubeconfig } from "./kubeconfigs";

/** Kubeconfig of all clusters or of one, without a secret. */
export function Kubeconfig() {
  const { handles, error: handlesError } = useHandles();
  const [{ data, error: domainError }] = useQuery({ query: ClusterDomainDocument });
  const [chosen, choose] = useState("");
  const error = handlesError ?? domainError;
  if (error !== undefined) return <Problem error={error} />;
  if (handles === undefined || data == null) return <Skeleton lines={4} />;
  const text = kubeconfig(location.origin, chosen === "" ? handles : [chosen], data.installation.clusterDomain);
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
          Download kubeconfig
        </button>
      </div>
      <p className="quiet">
        The file contains no secret. kubectl gets a token from <code>towline-kubectl-login</code>, which is part of the CLI. Run <code>towline login {location.origin}</code> first.
      </p>
      {location.protocol === "http:" && <p className="status warn">This page uses plain HTTP. kubectl sends tokens only over HTTPS: open the console over HTTPS and download the file there.</p>}
      <pre className="block" tabIndex={0}>
        {text}
      </pre>
    </div>
  );
}
