import "./skeleton.css";

/** Placeholder while data is loading. */
export function Skeleton({ lines }: { readonly lines: number }) {
  return (
    <div className="skeleton" role="progressbar" aria-busy="true" aria-label="Loading">
      {Array.from({ length: lines }, (_, line) => (
        <span key={line} />
      ))}
    </div>
  );
}
