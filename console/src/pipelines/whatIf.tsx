import { WhatIfDocument, type PipelineAttributes, type WhatIfQuery } from "../api/generated";
import type { Action } from "../manage/kind";
import { number } from "../manage/values";
import { exactly } from "../text/time";
import { Table } from "../ui/Table";

const DAY = 86_400_000;

type Result = NonNullable<WhatIfQuery["pipelineWhatIf"]>;

const time = (at: string | null): string => (at === null ? "never" : exactly(at));

function Steps({ result }: { readonly result: Result }) {
  if (result.steps.length === 0 && result.waiting.length === 0) return <p className="quiet">No releases in this period.</p>;
  return (
    <div className="stack">
      <Table label="Releases with this definition" titles={["Stage", "Direction", "Entered", "Would enter"]}>
        {result.steps.map(({ stage, releaseId, back, was, would }) => (
          <tr key={`${stage} ${releaseId} ${String(back)}`}>
            <td>{stage}</td>
            <td>{back ? "rollback" : "release"}</td>
            <td>{time(was)}</td>
            <td>{time(would)}</td>
          </tr>
        ))}
      </Table>
      {result.waiting.length > 0 && (
        <Table label="Waiting releases" titles={["Stage", "Reason"]}>
          {result.waiting.map(({ stage, releaseId, reason }) => (
            <tr key={`${stage} ${releaseId}`}>
              <td>{stage}</td>
              <td className="wide">{reason}</td>
            </tr>
          ))}
        </Table>
      )}
    </div>
  );
}

/** Replays the releases of a past period with the edited definition. */
export const WHAT_IF: Action<{ readonly id: string; readonly attributes: PipelineAttributes }> = {
  title: "Compare with past releases",
  permission: { verb: "READ", kind: "PIPELINE" },
  consequence: () => "Replays the releases of the past days with this definition. Changes nothing.",
  fields: [{ path: "days", title: "Days", of: "number", required: true }],
  initial: () => ({ days: 7 }),
  command: () => ["pipelines", "what-if", "--file", "pipeline.yaml"],
  run: async (client, values, { id, attributes }) => {
    const until = new Date();
    const since = new Date(until.getTime() - (number(values, "days") ?? 7) * DAY);
    const { data, error } = await client.query(WhatIfDocument, { id, attributes, since: since.toISOString(), until: until.toISOString() }).toPromise();
    return { error, content: data?.pipelineWhatIf == null ? undefined : <Steps result={data.pipelineWhatIf} /> };
  },
  done: "Comparison finished",
};
