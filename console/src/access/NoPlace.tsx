/** Says that what somebody has named is no place of theirs; nothing where they have named none. */
export function NoPlace({ named }: { readonly named: string }) {
  if (named === "") return null;
  return (
    <span className="status bad" role="alert">
      There is no {named} here that you may see.
    </span>
  );
}
