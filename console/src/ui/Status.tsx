import "./status.css";

export type Tone = "ok" | "busy" | "warn" | "bad" | "idle";

const SHAPES: Record<Tone, string> = { ok: "●", busy: "◐", warn: "▲", bad: "✕", idle: "○" };

type Props = { readonly tone: Tone; readonly children: string; readonly title?: string; readonly pill?: boolean };

/** A state in one word. The shape says as much as the colour does. */
export function Status({ tone, children, title, pill = false }: Props) {
  return (
    <span className={`status ${tone}${pill ? " pill" : ""}`} title={title}>
      <span aria-hidden="true">{SHAPES[tone]}</span> {children}
    </span>
  );
}
