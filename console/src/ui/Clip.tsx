import type { MouseEvent, ReactNode } from "react";
import "./table.css";

/** Shows the whole text under the pointer if the line is too short for it. */
function nameCut({ currentTarget: line }: MouseEvent<HTMLElement>): void {
  line.title = line.scrollHeight > line.clientHeight ? line.innerText : "";
}

/** One line of a table's cell, which gives way to other columns: it ends with an ellipsis where the window ends. */
export function Clip({ children }: { readonly children: ReactNode }) {
  return (
    <span className="clip" onMouseEnter={nameCut}>
      {children}
    </span>
  );
}
