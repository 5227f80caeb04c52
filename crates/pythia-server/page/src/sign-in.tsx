// Dialog for a name and password, or a token, if the server requires the user to sign in.

import { useEffect, useRef, useState } from "preact/hooks";
import { signingIn } from "./server/connection.ts";

export function SignIn() {
  const asked = signingIn.value;
  const dialog = useRef<HTMLDialogElement>(null);
  const [way, setWay] = useState<"basic" | "bearer">("basic");
  useEffect(() => {
    if (asked) dialog.current?.showModal();
    else dialog.current?.close();
  }, [asked]);

  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget as HTMLFormElement);
    const field = (name: string) => String(fields.get(name) ?? "");
    asked?.answer(way === "bearer"
      ? `Bearer ${field("token").trim()}`
      : `Basic ${base64(`${field("user")}:${field("password")}`)}`);
  };
  return (
    <dialog ref={dialog} aria-labelledby="sign-in-title" onClose={() => asked?.answer(null)}>
      <form onSubmit={submit}>
        <h2 id="sign-in-title">Sign in</h2>
        <p>{asked?.refused ? "The server rejected these credentials. Try again." : "This server requires you to sign in."}</p>
        <fieldset class="choices">
          <legend class="unseen">Method</legend>
          <label><input type="radio" name="way" checked={way === "basic"} onChange={() => setWay("basic")} /> Name and password</label>
          <label><input type="radio" name="way" checked={way === "bearer"} onChange={() => setWay("bearer")} /> Token</label>
        </fieldset>
        {way === "basic"
          ? <>
              <label class="field">Name<input name="user" autocomplete="username" required /></label>
              <label class="field">Password<input name="password" type="password" autocomplete="current-password" required /></label>
            </>
          : <label class="field">Token<input name="token" type="password" autocomplete="off" required /></label>}
        <div class="actions">
          <button type="button" class="quiet" onClick={() => asked?.answer(null)}>Not now</button>
          <button type="submit" class="main">Sign in</button>
        </div>
      </form>
    </dialog>
  );
}

function base64(text: string): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
