// Signing in: by a link that works once, or with a token. The token goes to the service and stays nowhere here.
import { html, useEffect, useState } from "../vendor/preact.js";
import { session, signIn } from "../lib/api.js";
import { navigate } from "../lib/router.js";
import { CopyButton, Trouble } from "../parts/parts.js";

export default function SignIn() {
  const [token, setToken] = useState("");
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  document.title = "Sign in · waterclock";

  const enter = async (/** @type {{token: string} | {code: string}} */ by) => {
    setBusy(true);
    setError(null);
    try {
      await signIn(by);
      if (location.pathname === "/ui/sign-in") navigate("/", { replace: true });
    } catch (problem) {
      setError(problem);
    } finally {
      setBusy(false);
    }
  };

  useEffect(() => {
    if (location.pathname !== "/ui/sign-in") return;
    const code = location.hash.slice(1);
    history.replaceState(history.state, "", location.pathname); // the code leaves the address before anything else
    if (code) enter({ code });
    else if (session.value) navigate("/", { replace: true });
  }, []);

  return html`<main class="sign-in">
    <svg viewBox="0 0 32 32" width="40" height="40" aria-hidden="true"><path d="M8 5h16M8 27h16M10 5c0 6 6 7 6 11s-6 5-6 11M22 5c0 6-6 7-6 11s6 5 6 11" />
      <path class="water" d="M12 26c.7-3 4-4.2 4-4.2s3.3 1.2 4 4.2z" /></svg>
    <h1>waterclock</h1>
    <p class="quiet">What runs now, what will run, and what went wrong.</p>
    ${error && html`<${Trouble} error=${{ message: error.message, advice: "" }} />`}
    <form onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      if (token.trim()) enter({ token: token.trim() });
    }}>
      <label for="token">Token</label>
      <input id="token" type="password" name="token" autocomplete="current-password" spellcheck=${false} autofocus
        value=${token} onInput=${(/** @type {any} */ event) => setToken(event.target.value)} />
      <button type="submit" class="button primary ${busy ? "busy" : ""}" disabled=${busy}>Sign in</button>
    </form>
    <div class="hint"><p>Or, where waterclock runs:</p>
      <div class="command"><code>waterclock console</code><${CopyButton} text="waterclock console" /></div>
      <p class="quiet">It prints a link that signs you in, once. A token for somebody else is made with <code>waterclock token create --scope read</code>.</p></div>
  </main>`;
}
