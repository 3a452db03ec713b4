import type { PipelineBoardFragment } from "../api/generated";
import { Gates } from "./Gates";
import { StageCard } from "./StageCard";
import "./pipelines.css";

/** Stages next to each other, each after the gates that lead to it. */
export function Board({ pipeline }: { readonly pipeline: PipelineBoardFragment }) {
  return (
    <div className="board" tabIndex={0} role="region" aria-label={`Board of ${pipeline.name}`}>
      {pipeline.stages.map((stage) => (
        <div key={stage.id} className="column">
          {pipeline.edges
            .filter(({ to }) => to.id === stage.id)
            .map((edge) => (
              <Gates key={edge.id} edge={edge} pipeline={pipeline} />
            ))}
          <StageCard stage={stage} pipelineId={pipeline.id} />
        </div>
      ))}
    </div>
  );
}
