import { Link, useLocation } from "wouter";

/** Page for an unknown URL. */
export function NotFound() {
  const [where] = useLocation();
  return (
    <section>
      <h1>Page not found</h1>
      <p>
        <code>{where}</code> does not exist. <Link href="/">Go to the fleet</Link>
      </p>
    </section>
  );
}
