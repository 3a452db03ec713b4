import type { ReactNode } from "react";
import "./table.css";

type Props = { readonly label: string; readonly titles: readonly string[]; readonly children: ReactNode };

/** The frame and the heads of a dense table; bodies are children. It scrolls sideways by itself where it is narrow. */
export function TableFrame({ label, titles, children }: Props) {
  return (
    <div className="table-frame" tabIndex={0} role="region" aria-label={label}>
      <table className="table">
        <thead>
          <tr>
            {titles.map((title) =>
              // The column of what can be done needs no name.
              title === "" ? (
                <td key={title} />
              ) : (
                <th key={title} scope="col">
                  {title}
                </th>
              ),
            )}
          </tr>
        </thead>
        {children}
      </table>
    </div>
  );
}

/** A dense table whose rows are children. */
export function Table({ label, titles, children }: Props) {
  return (
    <TableFrame label={label} titles={titles}>
      <tbody>{children}</tbody>
    </TableFrame>
  );
}
