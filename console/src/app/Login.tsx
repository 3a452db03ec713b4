import { useEffect, useId, useRef, useState, type SubmitEvent } from "react";
import { CSRF } from "../api/client";
import "./login.css";

type Provider = { readonly name: string; readonly title: string };
type Ways = { readonly local: boolean; readonly providers: readonly Provider[] };

async function ways(): Promise<Ways> {
  const response = await fetch("/oauth/providers");
  return (await response.json()) as Ways;
}

const REFUSED: Record<number, string> = {
  401: "That name and password do not belong together.",
  429: "Too many attempts. Wait a quarter of an hour, then try again.",
  503: "The control plane is busy or just starting. Try again in a moment.",
};

/** Sends name and password; why not, or null: this browser is signed in. */
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
    return isDone ? null : (REFUSED[response.status] ?? `The control plane refused it (${response.status}).`);
  } catch {
    return "The control plane does not answer. Try again in a moment.";
  }
}

function LoginForm({ onDone }: { readonly onDone: () => void }) {
  const [known, setKnown] = useState<Ways | null>(null);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    ways().then(setKnown, () => setKnown({ local: true, providers: [] }));
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
      {known?.providers.map(({ name, title }) => (
        <a key={name} className="button wide-button" href={`/oauth/login?provider=${encodeURIComponent(name)}&back=${back}`}>
          Sign in with {title}
        </a>
      ))}
      {known !== null && known.local && known.providers.length > 0 && <p className="or">or</p>}
      {known?.local === true && (
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

/** The first page of who is not signed in. The address stays, so that one lands where one wanted to. */
export function Login({ onDone }: { readonly onDone: () => void }) {
  return (
    <main className="login">
      <div className="login-card">
        <h1>
          <img src="/favicon.svg" alt="" width="28" height="28" /> Towline
        </h1>
        <LoginForm onDone={onDone} />
        <p className="quiet">
          The first administrator opens the link in <code>setup.url</code> of the data directory.
        </p>
      </div>
    </main>
  );
}

/** The same above a page whose session has ended; what was typed there is still there afterwards. */
export function LoginAgain({ onDone }: { readonly onDone: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const title = useId();
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} className="login-card" aria-labelledby={title} onCancel={(event) => event.preventDefault()}>
      <h2 id={title}>Your session has ended</h2>
      <p className="quiet">Sign in again: the page stays as you left it.</p>
      <LoginForm onDone={onDone} />
    </dialog>
  );
}
