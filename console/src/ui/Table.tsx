import type { ReactNode } from "react";
import "./table.css";

type Props = {
  readonly label: string;
  readonly titles: readonly string[];
  /** Titles of columns of numbers, which are aligned to the right. */
  readonly numbers?: readonly string[];
  /** Head of the column of checkboxes. */
  readonly pick?: ReactNode;
  /** Cells of the head; without them, it has the titles. */
  readonly head?: ReactNode;
  readonly className?: string;
  readonly children: ReactNode;
};

/** Frame and header of a dense table; the table bodies are children. Scrolls horizontally on narrow screens. */
export function TableFrame({ label, titles, numbers = [], pick, head, className, children }: Props) {
  return (
    <div className="table-frame" tabIndex={0} role="region" aria-label={label}>
      <table className={className === undefined ? "table" : `table ${className}`}>
        <thead>
          <tr>
            {pick !== undefined && <td className="pick">{pick}</td>}
            {head ??
              titles.map((title) =>
                // The column of row actions has no header.
                title === "" ? (
                  <td key={title} />
                ) : (
                  <th key={title} scope="col" className={numbers.includes(title) ? "number" : undefined}>
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
export function Table({ children, ...frame }: Props) {
  return (
    <TableFrame {...frame}>
      <tbody>{children}</tbody>
    </TableFrame>
  );
}
