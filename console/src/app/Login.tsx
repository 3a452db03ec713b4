import { useEffect, useId, useRef, useState, type SubmitEvent } from "react";
import { CSRF } from "../api/client";
import "./login.css";

type Provider = { readonly name: string; readonly title: string };
type SignInMethods = { readonly local: boolean; readonly providers: readonly Provider[] };

async function signInMethods(): Promise<SignInMethods> {
  const response = await fetch("/oauth/providers");
  return (await response.json()) as SignInMethods;
}

const ERRORS: Record<number, string> = {
  401: "Wrong e-mail or password.",
  429: "Too many attempts. Try again in 15 minutes.",
  503: "The control plane is starting or overloaded. Try again in a moment.",
};

/** Signs in with a password. Returns an error message, or null after success. */
async function signIn(form: FormData): Promise<string | null> {
  const fields = { email: form.get("email"), password: form.get("password") };
  try {
    const response = await fetch("/oauth/session", {
      method: "POST",
      redirect: "manual",
      headers: { ...CSRF, "Content-Type": "application/json" },
      body: JSON.stringify(fields),
    });
    const isDone = response.ok || response.type === "opaqueredirect";
    return isDone ? null : (ERRORS[response.status] ?? `Sign-in failed with status ${response.status}. Try again, or check the log of the control plane.`);
  } catch {
    return "The control plane does not respond. Try again in a moment.";
  }
}

function LoginForm({ onDone }: { readonly onDone: () => void }) {
  const [methods, setMethods] = useState<SignInMethods | null>(null);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    signInMethods().then(setMethods, () => setMethods({ local: true, providers: [] }));
  }, []);
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    setBusy(true);
    const refusal = await signIn(new FormData(event.currentTarget));
    setBusy(false);
    if (refusal === null) onDone();
    else setProblem(refusal);
  };
  const back = encodeURIComponent(location.pathname + location.search);
  return (
    <form onSubmit={(event) => void submit(event)} aria-busy={busy}>
      {methods?.providers.map(({ name, title }) => (
        <a key={name} className="button wide-button" href={`/oauth/login?provider=${encodeURIComponent(name)}&back=${back}`}>
          Sign in with {title}
        </a>
      ))}
      {methods !== null && methods.local && methods.providers.length > 0 && <p className="or">or</p>}
      {methods?.local === true && (
        <>
          <label>
            E-mail
            <input name="email" autoComplete="username" required autoFocus />
          </label>
          <label>
            Password
            <input name="password" type="password" autoComplete="current-password" required />
          </label>
          {problem !== "" && (
            <p role="alert" className="login-problem">
              {problem}
            </p>
          )}
          <button className="primary wide-button" disabled={busy}>
            {busy ? "Signing in…" : "Sign in"}
          </button>
        </>
      )}
    </form>
  );
}

/** Sign-in page. The URL stays, so that the user lands on the requested page. */
export function Login({ onDone }: { readonly onDone: () => void }) {
  return (
    <main className="login">
      <div className="login-card">
        <h1>
          <img src="/favicon.svg" alt="" width="28" height="28" /> Towline
        </h1>
        <LoginForm onDone={onDone} />
        <p className="quiet">
          First sign-in? Open the link in <code>setup.url</code> in the data directory.
        </p>
      </div>
    </main>
  );
}

/** Sign-in dialog over a page whose session has ended; the page keeps unsaved input. */
export function LoginAgain({ onDone }: { readonly onDone: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const title = useId();
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} className="login-card" aria-labelledby={title} onCancel={(event) => event.preventDefault()}>
      <h2 id={title}>Your session has ended</h2>
      <p className="quiet">Sign in again. This page keeps your unsaved input.</p>
      <LoginForm onDone={onDone} />
    </dialog>
  );
}
