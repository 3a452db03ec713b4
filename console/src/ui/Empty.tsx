import type { ReactNode } from "react";
import "./empty.css";

type Props = { readonly title: string; readonly children: ReactNode };

/** Empty state of a list, with the next step. */
export function Empty({ title, children }: Props) {
  return (
    <section className="empty">
      <h2>{title}</h2>
      <div>{children}</div>
    </section>
  );
}
