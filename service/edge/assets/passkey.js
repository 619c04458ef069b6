"use strict";
// Passkeys: a button with `data-passkey` asks the service what to ask, asks the browser, and sends the answer back.
// Without a script or without passkeys the buttons stay hidden and the other ways stand beside them.
(() => {
  const ways = {
    "sign-in": { ask: "/sign-in/passkey/options", answer: "/sign-in/passkey", make: false },
    prove: { ask: "/prove/passkey/options", answer: "/prove/passkey", make: false },
    add: { ask: "/settings/sign-in/passkey/options", answer: "/settings/sign-in/passkey", make: true },
  };
  const bytes = (text) =>
    Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));
  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

  async function post(address, body, csrf) {
    const headers = { "content-type": "application/json", accept: "application/json" };
    if (csrf) headers["x-csrf-token"] = csrf;
    const reply = await fetch(address, { method: "POST", headers, body: JSON.stringify(body) });
    const found = await reply.json();
    if (reply.ok) return found;
    if (found.error.code === "proof_needed") location.assign(`/prove?next=${encodeURIComponent(location.pathname)}`);
    throw new Error(found.error.message);
  }

  const described = (list) => (list || []).map((one) => ({ ...one, id: bytes(one.id) }));

  function make(options) {
    const publicKey = {
      ...options,
      challenge: bytes(options.challenge),
      user: { ...options.user, id: bytes(options.user.id) },
      excludeCredentials: described(options.excludeCredentials),
    };
    return navigator.credentials.create({ publicKey });
  }

  function use(options) {
    const publicKey = {
      ...options,
      challenge: bytes(options.challenge),
      allowCredentials: described(options.allowCredentials),
    };
    return navigator.credentials.get({ publicKey });
  }

  function json(credential) {
    const given = credential.response;
    const response = { clientDataJSON: text(given.clientDataJSON) };
    if (given.attestationObject) {
      response.attestationObject = text(given.attestationObject);
      response.transports = given.getTransports ? given.getTransports() : [];
    } else {
      response.authenticatorData = text(given.authenticatorData);
      response.signature = text(given.signature);
      if (given.userHandle) response.userHandle = text(given.userHandle);
    }
    return { id: credential.id, rawId: text(credential.rawId), type: credential.type, response };
  }

  async function go(button, said) {
    const way = ways[button.dataset.passkey];
    const { csrf, next } = button.dataset;
    const options = await post(way.ask, {}, csrf);
    const credential = json(await (way.make ? make(options) : use(options)));
    const name = document.querySelector("[data-passkey-name]");
    const body = way.make ? { credential, name: name ? name.value : "" } : { credential };
    const query = next ? `?next=${encodeURIComponent(next)}` : "";
    const found = await post(way.answer + query, body, csrf);
    said.textContent = "";
    location.assign(found.next);
  }

  if (!window.PublicKeyCredential) return;
  for (const part of document.querySelectorAll("[data-passkey-part]")) {
    const button = part.querySelector("[data-passkey]");
    const said = part.querySelector("[data-passkey-said]");
    part.hidden = false;
    button.addEventListener("click", async () => {
      button.disabled = true;
      said.textContent = "";
      try {
        await go(button, said);
      } catch (error) {
        said.textContent = error.name === "NotAllowedError" ? said.dataset.refused : error.message;
      } finally {
        button.disabled = false;
      }
    });
  }
})();
