"use strict";
// An approval that is signed: the passkey is asked for the very bytes of the commit. Without this script, or without the
// passkey, nothing is approved: the server takes nothing less.
(() => {
  const form = document.querySelector("form[data-signs]");
  if (!form) return;
  const told = form.querySelector("[data-told]");
  const path = form.dataset.signs;
  const tenant = form.dataset.tenant;

  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (one) => one.charCodeAt(0));
  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

  const send = async (step, body) => {
    const answer = await fetch(`${path}/${step}?tenant=${tenant}`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-csrf-token": form.elements.csrf.value },
      body: JSON.stringify(body),
    });
    const said = await answer.json();
    if (!answer.ok) throw new Error(`${said.message} ${said.next ?? ""}`);
    return said;
  };

  const decision = () => {
    const fields = new FormData(form);
    return {
      verdict: "approve",
      card_digest: fields.get("card_digest"),
      acknowledged: fields.getAll("acknowledged"),
      confirmed: fields.getAll("confirmed"),
      reason: fields.get("reason") ?? "",
      note: fields.get("note") ?? "",
    };
  };

  const sign = async (asked) => {
    const made = await navigator.credentials.get({
      publicKey: {
        challenge: bytes(asked.challenge),
        rpId: asked.rp_id,
        allowCredentials: asked.credentials.map((id) => ({ type: "public-key", id: bytes(id) })),
        userVerification: "required",
        timeout: asked.seconds * 1000,
      },
    });
    return {
      draft: asked.draft,
      credential: text(made.rawId),
      authenticator_data: text(made.response.authenticatorData),
      client_data: text(made.response.clientDataJSON),
      signature: text(made.response.signature),
    };
  };

  form.addEventListener("submit", async (event) => {
    if (event.submitter?.value !== "approve") return;
    event.preventDefault();
    event.submitter.disabled = true;
    told.textContent = form.dataset.asks;
    try {
      const asked = await send("signature", decision());
      if (asked.challenge) await send("signed-approval", await sign(asked));
      location.assign(`/proposals/${form.dataset.proposal}?tenant=${tenant}`);
    } catch (error) {
      told.textContent = error.name === "NotAllowedError" ? form.dataset.refused : error.message;
      event.submitter.disabled = false;
    }
  });
})();
