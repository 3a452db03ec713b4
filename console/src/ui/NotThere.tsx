import { Link } from "wouter";

/** What an address names is not there, or one may not see it: both read alike. */
export function NotThere({ what }: { readonly what: string }) {
  return (
    <section>
      <h1>No such {what}</h1>
      <p>
        It was deleted, or you may not see it. <Link href="/">To the fleet</Link>
      </p>
    </section>
  );
}
