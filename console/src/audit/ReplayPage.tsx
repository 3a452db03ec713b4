import { useEffect, useRef, useState } from "react";
import type { CombinedError } from "urql";
import { Link, useParams } from "wouter";
import { client } from "../api/client";
import { RecordingDocument } from "../api/generated";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { parseCast, type Cast } from "./cast";
import "./audit.css";
import "../objects/shell.css";

const SPEEDS = [1, 2, 4, 16];

async function load(requestId: string): Promise<{ readonly text: string; readonly error?: CombinedError }> {
  let text = "";
  let offset: number | null = 0;
  while (offset !== null) {
    const requested: number = offset;
    const { data, error } = await client.query(RecordingDocument, { requestId, offset: requested }, { requestPolicy: "network-only" }).toPromise();
    if (data == null) return error === undefined ? { text } : { text, error };
    text += data.sessionRecording.data;
    const next: number | null = data.sessionRecording.next;
    offset = next === null || next === requested ? null : next;
  }
  return { text };
}

/** Playback of a recorded terminal session. */
export function ReplayPage() {
  const { id } = useParams<{ id: string }>();
  const [cast, setCast] = useState<Cast | null>(null);
  const [error, setError] = useState<CombinedError | undefined>();
  const [speed, setSpeed] = useState(2);
  const [round, setRound] = useState(0);
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    void load(id).then(({ text, error: refusal }) => {
      setError(refusal);
      if (refusal === undefined) setCast(parseCast(text));
    });
  }, [id]);
  useEffect(() => {
    if (cast === null || host.current === null) return undefined;
    const element = host.current;
    let cancelled = false;
    let end = () => {};
    void import("../terminal/player").then(({ play }) => {
      if (!cancelled) end = play(element, cast, speed);
    });
    return () => {
      cancelled = true;
      end();
    };
  }, [cast, speed, round]);
  return (
    <article className="player">
      <p className="crumbs">
        <Link href="/audit">Audit log</Link> / Recording
      </p>
      <div className="bar">
        <h1>Recorded session</h1>
        <button type="button" onClick={() => setRound(round + 1)}>
          Restart
        </button>
        <label>
          Speed{" "}
          <select value={speed} onChange={(event) => setSpeed(Number(event.target.value))}>
            {SPEEDS.map((factor) => (
              <option key={factor} value={factor}>
                {factor}×
              </option>
            ))}
          </select>
        </label>
      </div>
      {error !== undefined && <Problem error={error} />}
      {cast === null && error === undefined && <Skeleton lines={10} />}
      <div ref={host} className="screen" hidden={cast === null} />
    </article>
  );
}
