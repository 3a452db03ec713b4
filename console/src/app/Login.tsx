import { useState, type SubmitEvent } from "react";
import { CSRF } from "../api/client";
import "./login.css";

/** Signs in with name and password, or by one of the installation's providers. */
export function Login({ onDone }: { readonly onDone: () => void }) {
  const [problem, setProblem] = useState("");
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const response = await fetch("/oauth/password", { method: "POST", headers: CSRF, body: form });
    if (response.ok) onDone();
    else setProblem("That name and password do not belong together.");
  };
  return (
    <main className="login">
      <form onSubmit={(event) => void submit(event)}>
        <h1>Towline</h1>
        <label>
          E-mail
          <input name="email" autoComplete="username" required />
        </label>
        <label>
          Password
          <input name="password" type="password" autoComplete="current-password" required />
        </label>
        {problem !== "" && <p role="alert">{problem}</p>}
        <button className="primary">Sign in</button>
      </form>
    </main>
  );
}
