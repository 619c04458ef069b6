// Lets this browser be notified. Where that cannot be, the button stays hidden.
(() => {
  const place = document.getElementById("push");
  if (!place || !("serviceWorker" in navigator) || !("PushManager" in window)) return;
  const button = place.querySelector("button");
  const said = place.querySelector("[role=status]");
  const bytes = (text) =>
    Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (one) => one.charCodeAt(0));

  const subscribe = async () => {
    const worker = await navigator.serviceWorker.register("/assets/push-worker.js");
    const known = await worker.pushManager.getSubscription();
    if (known) await known.unsubscribe();
    const made = await worker.pushManager.subscribe({
      userVisibleOnly: true,
      applicationServerKey: bytes(place.dataset.key),
    });
    const { endpoint, keys } = made.toJSON();
    const answer = await fetch(place.dataset.path, {
      method: "POST",
      headers: { "content-type": "application/json", "x-csrf-token": place.dataset.csrf },
      body: JSON.stringify({ endpoint, keys: { p256dh: keys.p256dh, auth: keys.auth } }),
    });
    if (!answer.ok) throw new Error((await answer.json()).error.message);
  };

  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      if ((await Notification.requestPermission()) !== "granted") throw new Error(place.dataset.notAllowed);
      await subscribe();
      location.reload();
    } catch (error) {
      said.textContent = error.message;
      button.disabled = false;
    }
  });
  place.hidden = false;
})();
