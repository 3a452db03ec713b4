/** Error for a scope that does not exist or that the user may not read; nothing for an empty name. */
export function UnknownScope({ named }: { readonly named: string }) {
  if (named === "") return null;
  return (
    <span className="status bad" role="alert">
      {named} not found, or you may not read it.
    </span>
  );
}
