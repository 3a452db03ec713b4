/** Name of a Git author; the tooltip has the e-mail address. */
export function Person({ author }: { readonly author: string }) {
  const [name = ""] = author.split(" <");
  return <span title={author}>{name || author}</span>;
}
