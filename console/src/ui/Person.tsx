/** Somebody as git names them, without the address; that is the tip. */
export function Person({ author }: { readonly author: string }) {
  const [name = ""] = author.split(" <");
  return <span title={author}>{name || author}</span>;
}
