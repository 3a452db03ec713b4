import "./skeleton.css";

/** The shape of what is being loaded. */
export function Skeleton({ lines }: { readonly lines: number }) {
  return (
    <div className="skeleton" aria-busy="true" aria-label="Loading">
      {Array.from({ length: lines }, (_, line) => (
        <span key={line} />
      ))}
    </div>
  );
}
