type Row = { readonly ok: number; readonly bad: number; readonly rest: number };
type Props = { readonly titles: readonly string[]; readonly rows: readonly Row[] };

const HEIGHT = 160;

/** Stacked bars over time, with a table for screen readers. */
export function Bars({ titles, rows }: Props) {
  const max = Math.max(1, ...rows.map(({ ok, bad, rest }) => ok + bad + rest));
  const width = 100 / Math.max(1, rows.length);
  return (
    <>
      <svg className="bars" viewBox={`0 0 100 ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        {rows.map(({ ok, bad, rest }, index) => {
          const scale = (HEIGHT - 4) / max;
          const parts = [
            ["ok", ok],
            ["bad", bad],
            ["rest", rest],
          ] as const;
          let top = HEIGHT;
          return parts.map(([name, count]) => {
            top -= count * scale;
            return <rect key={`${index} ${name}`} className={name} x={index * width + width * 0.1} y={top} width={width * 0.8} height={count * scale} />;
          });
        })}
      </svg>
      <p className="axis quiet">
        <span>{titles[0]}</span>
        <span>
          <span className="status ok">■ healthy</span> <span className="status bad">■ failed</span> <span className="status idle">■ in progress</span> · maximum {max.toLocaleString()}
        </span>
        <span>{titles.at(-1)}</span>
      </p>
      <table className="hidden-text">
        <caption>Deployments over time</caption>
        <tbody>
          {rows.map(({ ok, bad, rest }, index) => (
            <tr key={titles[index]}>
              <th scope="row">{titles[index]}</th>
              <td>{ok} healthy</td>
              <td>{bad} failed</td>
              <td>{rest} in progress</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
