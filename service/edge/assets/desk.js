"use strict";
// What makes the desk quicker. Every page works without it: a script only spares a person a step, it decides nothing.

// Live: one page of a browser hears of changes and tells the others, since a browser has few connections to a service.
(() => {
  const tenant = document.body.dataset.tenant;
  const notices = document.querySelector(".notices");
  if (!tenant || !notices) return;

  const LOST_MS = 4000;
  const AGAIN_MS = 5000;
  const GATHER_MS = 150;
  const name = `placet-${tenant}`;
  const others = new BroadcastChannel(name);
  const shown = new Map();
  let source = null;
  let live = true;
  let lost = 0;

  function notice(key, text, link) {
    if (!text) {
      shown.get(key)?.remove();
      shown.delete(key);
    } else if (!shown.has(key)) {
      const line = document.createElement("p");
      line.append(text);
      if (link) {
        const way = document.createElement("a");
        way.href = link.href;
        way.textContent = link.words;
        line.append(" ", way);
      }
      shown.set(key, line);
      notices.append(line);
    }
  }

  function say(isLive) {
    live = isLive;
    notice("lost", isLive ? "" : notices.dataset.lost);
  }

  function heard(message) {
    if (message === "changed") look();
    else if (message === "live") say(true);
    else if (message === "lost") say(false);
    else if (message === "ask" && source) others.postMessage(live ? "live" : "lost");
  }

  function tell(message) {
    others.postMessage(message);
    heard(message);
  }

  function listen() {
    source = new EventSource(`/events?tenant=${tenant}`);
    const here = () => {
      clearTimeout(lost);
      lost = 0;
      tell("live");
      tell("changed"); // whatever was missed meanwhile
    };
    source.addEventListener("here", here);
    source.addEventListener("changed", () => tell("changed"));
    source.addEventListener("error", () => {
      lost ||= setTimeout(() => tell("lost"), LOST_MS);
      if (source.readyState === EventSource.CLOSED) setTimeout(listen, AGAIN_MS);
    });
  }

  async function ask(address) {
    const answer = await fetch(address, { headers: { "X-Placet-Looks": "1" }, redirect: "error" });
    if (!answer.ok) throw new Error(`${answer.status}`);
    return answer;
  }

  function count(waiting) {
    const link = document.querySelector('.pages a[href="/"]');
    if (link) link.textContent = waiting ? `${link.dataset.name} ${waiting}` : link.dataset.name;
  }

  async function lookAtCount() {
    const card = document.querySelector("[data-mark]");
    const query = new URLSearchParams(card ? { tenant, proposal: card.dataset.proposal } : { tenant });
    const found = await (await ask(`/api/v1/glance?${query}`)).json();
    count(found.waiting);
    if (card && found.mark !== card.dataset.mark) {
      const again = `/proposals/${card.dataset.proposal}?tenant=${tenant}`;
      notice("changed", notices.dataset.changed, { href: again, words: notices.dataset.show });
    }
  }

  async function lookAtInbox() {
    const here = new URL(location.href);
    here.searchParams.set("tenant", tenant);
    const page = new DOMParser().parseFromString(await (await ask(here)).text(), "text/html");
    const head = page.querySelector("#inbox-head");
    const list = page.querySelector("#inbox");
    if (!head || !list) return;
    document.title = page.title;
    document.querySelector('.pages a[href="/"]').textContent = page.querySelector('.pages a[href="/"]').textContent;
    renew(document.querySelector("#inbox-head"), head);
    renew(document.querySelector("#inbox"), list);
  }

  // Nothing moves away under a pointer: what it is over is renewed when it leaves.
  function renew(old, fresh) {
    if (old.matches(":hover") && matchMedia("(hover: hover)").matches) {
      old.addEventListener("pointerleave", look, { once: true });
      return;
    }
    const focused = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    old.replaceChildren(...fresh.childNodes);
    if (focused) [...old.querySelectorAll("a")].find((one) => one.getAttribute("href") === focused)?.focus();
  }

  // One look at a time: of two, the older answer could come last, and take away what is there.
  let looking = false;
  let again = false;
  function look() {
    again = looking;
    if (looking) return;
    looking = true;
    setTimeout(async () => {
      again = false;
      try {
        await (document.querySelector("#inbox") ? lookAtInbox() : lookAtCount());
      } catch {
        say(false); // signed out, or the service is gone
      }
      looking = false;
      if (again) look();
    }, GATHER_MS);
  }

  others.addEventListener("message", (event) => heard(event.data));
  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && look());
  if (navigator.locks) {
    others.postMessage("ask");
    navigator.locks.request(name, () => {
      listen();
      return new Promise(() => {}); // held as long as the page is open
    });
  } else {
    listen();
  }
})();

// Keys: they move and open, nothing more. They are ignored while something is typed, and can be turned off.
(() => {
  const foot = document.querySelector(".keys");
  const dialog = document.querySelector(".keys-all");
  if (!foot || !dialog) return;

  const OFF = "placet-keys-off";
  const SEQUENCE_MS = 1500;
  const places = { i: "/", r: "/repositories", c: "/connections", l: "/ledger" };
  const use = dialog.querySelector('[name="keys"]');
  let going = 0;

  function lines() {
    return [...document.querySelectorAll("#inbox .line h3 a")];
  }

  function move(step) {
    const all = lines();
    const at = all.indexOf(document.activeElement);
    const to = at < 0 ? 0 : Math.min(Math.max(at + step, 0), all.length - 1);
    all[to]?.focus();
  }

  function open() {
    if (lines().includes(document.activeElement)) document.activeElement.click();
  }

  function search() {
    const field = document.querySelector('.find [name="q"]');
    if (field) field.select();
    else location.assign("/");
  }

  // Focus alone: the press that decides stays a press of that very button.
  function goTo(verdict) {
    const form = document.querySelector("#decision");
    const button = form?.querySelector(`[name="verdict"][value="${verdict}"]`);
    const open = verdict === "approve" ? [...(form?.elements ?? [])].find((one) => one.matches(":invalid")) : null;
    const target = open ?? button;
    target?.focus();
    target?.scrollIntoView({ block: "nearest" });
  }

  const acts = {
    j: () => move(1),
    k: () => move(-1),
    o: open,
    "/": search,
    "?": () => dialog.showModal(),
    a: () => goTo("approve"),
    d: () => goTo("decline"),
    g: () => {
      going = performance.now();
    },
  };

  function pressed(event) {
    const typing = event.target.closest?.("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]");
    const modified = event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat && event.key !== "j" && event.key !== "k";
    if (typing || modified || event.defaultPrevented || dialog.open || !use.checked) return;
    const follows = going && performance.now() - going < SEQUENCE_MS;
    going = 0;
    if (follows && Object.hasOwn(places, event.key)) {
      event.preventDefault();
      location.assign(places[event.key]);
    } else if (Object.hasOwn(acts, event.key)) {
      event.preventDefault();
      acts[event.key]();
    }
  }

  function show() {
    foot.querySelector(".keys-list").hidden = !use.checked;
  }

  use.checked = localStorage.getItem(OFF) === null;
  use.addEventListener("change", () => {
    if (use.checked) localStorage.removeItem(OFF);
    else localStorage.setItem(OFF, "1");
    show();
  });
  foot.querySelector("button").addEventListener("click", () => dialog.showModal());
  dialog.querySelector("button").addEventListener("click", () => dialog.close());
  document.addEventListener("keydown", pressed);
  foot.hidden = false;
  show();
})();
