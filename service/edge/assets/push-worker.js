// Shows what Placet says, and opens its page at a click; nothing is decided here.
self.addEventListener("push", (event) => {
  const said = event.data ? event.data.json() : { title: "Placet", body: "", link: "/", tag: "placet" };
  event.waitUntil(
    self.registration.showNotification(said.title, { body: said.body, tag: said.tag, data: said.link }),
  );
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const link = new URL(event.notification.data, self.location.origin);
  if (link.origin === self.location.origin) event.waitUntil(self.clients.openWindow(link.href));
});
