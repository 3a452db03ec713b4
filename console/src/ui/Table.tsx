import type { ReactNode } from "react";
import "./table.css";

type Props = { readonly label: string; readonly titles: readonly string[]; readonly children: ReactNode };

/** Frame and header of a dense table; the table bodies are children. Scrolls horizontally on narrow screens. */
export function TableFrame({ label, titles, children }: Props) {
  return (
    <div className="table-frame" tabIndex={0} role="region" aria-label={label}>
      <table className="table">
        <thead>
          <tr>
            {titles.map((title) =>
              // The column of row actions has no header.
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

/** Dense table; the rows are children. */
export function Table({ label, titles, children }: Props) {
  return (
    <TableFrame label={label} titles={titles}>
      <tbody>{children}</tbody>
    </TableFrame>
  );
}
