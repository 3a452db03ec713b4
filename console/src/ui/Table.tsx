import type { CSSProperties, ReactNode } from "react";
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

/** Titles as custom properties: narrow screens show each row as a card, whose cells have their title before them. */
const titleProperties = (titles: readonly string[], before: number): CSSProperties =>
  Object.fromEntries(titles.flatMap((title, index) => (title === "" ? [] : [[`--title-${index + before + 1}`, JSON.stringify(title)]])));

/** Frame and header of a dense table; the table bodies are children. Each row is a card on narrow screens. */
export function TableFrame({ label, titles, numbers = [], pick, head, className, children }: Props) {
  return (
    <div className="table-frame" tabIndex={0} role="region" aria-label={label}>
      <table className={className === undefined ? "table" : `table ${className}`} style={titleProperties(titles, pick === undefined ? 0 : 1)}>
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
