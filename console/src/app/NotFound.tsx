import { Link, useLocation } from "wouter";

/** An address that no page has. */
export function NotFound() {
  const [where] = useLocation();
  return (
    <section>
      <h1>Nothing is here</h1>
      <p>
        No page has the address <code>{where}</code>. <Link href="/">To the fleet</Link>
      </p>
    </section>
  );
}
