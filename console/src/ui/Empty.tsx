import type { ReactNode } from "react";
import "./empty.css";

type Props = { readonly title: string; readonly children: ReactNode };

/** An empty list that says how to fill it. */
export function Empty({ title, children }: Props) {
  return (
    <section className="empty">
      <h2>{title}</h2>
      <div>{children}</div>
    </section>
  );
}
